// Package agent wires podwright's rooms together into the node agent: it reads
// manifests from a folder and pods from an API server, runs them on a CRI runtime, and
// tells what it does. What is done with a pod is cri/podsyncer's; here is what a kubelet adds to it.
//
// The parts and what flows between them:
//
//	folder -> podsource.FileSource -> podsource.Merger -> syncloop.Loop -> podworkers.Workers -> podsyncer.Syncer
//	                                                         ^                                         |
//	                                                         +--- what became dirty -------------------+-> runtime
//
// newInputs and newNode (build.go) are the list of them, bottom-up: each is built from the Config and from
// the parts above it. Calls in the other direction are events of the loop, or go through lifecycle.
//
// newStages lists the resources of pods on the node: folder, users, cgroup, volumes, logs, allocation. Volumes
// are unmounted when the containers have stopped. The users are released after that. The content of
// volumes comes from volume/objects (--objects-dir). CSI drivers register with examples/kubelet/csi,
// which then retries the volumes that wait for them.
//
// Beside them run manager.Manager, csi.Registry, volume/objects.Dir, cri.HealthMonitor,
// cri/logs.Rotator, cri/images/gc.Manager, and package oom's Watcher, which tells when the node
// has no memory left.
//
// # As a node of a cluster
//
// With a kubeconfig, newCluster builds the agent's side of the API server: package
// apiserver's client and what stands on it (pods, mirrors, objects, csinodes, events), and
// package node. All of that needs no runtime, and runs before there is a connection and for
// longer than what acts on pods: a node whose runtime is away says so, and what is told at
// the end gets there. What flows:
//
//	pods bound to the node -> pods.Source -> podsource.Merger (as "api", beside the folder)
//	podsyncer's statuses   -> status/writer -> pods.Sink; a static pod's to its mirror
//	each sync of a static pod -> mirrors.Manager
//	a CSI driver that registers or goes -> csinodes.Manager; without a CSINode the node is not ready
//	objects that changed   -> volumes, and the loop for pods that wait for one
//	the Node               -> node.Node, Lease; its labels to admission, attached volumes to manager.Manager
//
// A source that was never read is not empty: until the API server has answered, pods of
// the last agent run on untouched.
//
// # The kubelet API
//
// With a listener, newAPI serves the kubelet API: package server's endpoints behind package auth,
// with a certificate of package certificates. The API needs no runtime and lives as long as the
// agent. Endpoints that need a runtime are built with the connection, and answer 503 without it.
//
// # Metrics
//
// Config.Metrics counts what the parts tell (metrics.go: a line per constructor), and looks
// up at each scrape what there is at that moment. It belongs to one Agent, and goes on
// counting when that is run again. Measures are the handlers for both servers.
//
// # More than one
//
// An Agent can be made any number of times in one process, each with a runtime
// and a root folder of its own. Run blocks until its context ends and leaves the
// pods running: an agent that starts later finds them and restarts nothing.
//
// # What survives a crash
//
// The agent has no database. It may be killed at any line; the next one takes over
// from what these say, in the order that cri/podsyncer keeps:
//
//	where                                what                          tells the next agent
//	manifests                            desired pods                  what should run. UIDs are hashes of content, path
//	                                                                   and node name, or written in the manifest
//	ROOT/static_manifests                the last good version of      what should run where a manifest is broken. On the
//	                                     each manifest                 disk before its pod is handed on
//	labels of sandboxes and containers   UID, name, namespace,         whose they are; a pod without a manifest is stopped
//	                                     container name
//	annotations of containers            hash of name and image        that it is not to be replaced
//	                                     restart count, where the      what /pods shows; how to stop and judge it without
//	                                     message is, grace, preStop    the manifest
//	the last dead container of a name    exit code, times              whether it is restarted; last state; phase
//	sandboxes                            attempt, creation             name of the next one; start time, and with it
//	                                                                   activeDeadlineSeconds
//	LOGS/NAMESPACE_NAME_UID/CONTAINER    N.log                         the restart count, if the runtime has lost all
//	                                                                   instances; of whom logs are left
//	ROOT/pods/UID                        the pod's folder              that something of a pod may be left: made before
//	                                                                   and removed after all the rest
//	ROOT/pods/UID/userns                 the pod's users               which users are taken
//	ROOT/pods/UID/volumes, plugins,      the pod's volumes, as other   what may be mounted: mounted once more for a pod
//	volume-subpaths                      kubelets lay them out         that runs, unmounted for one that has stopped
//	ROOT/plugins/kubernetes.io/csi       volumes that pods share, and  what a driver may have staged: unstaged when no
//	                                     devices                       pod uses it
//	ROOT/plugins_registry                the drivers' own sockets      which drivers there are: each is asked anew
//	ROOT/pods/UID/                       the pod's status, results     who was ready and had started; exit codes and
//	podwright-status.json                of its probes                 restart counts that the runtime has forgotten.
//	                                                                   On the disk before a sync changes anything
//	ROOT/allocated_pods_state            resources that pods were      what pods run with and count as, whatever they
//	                                     granted                       ask for. On the disk before anybody acts on it
//	ROOT/actuated_pods_state             resources of containers, as   what is to change in place
//	                                     the runtime was last told
//	ROOT/graceful_node_shutdown_state    when the node last went down  what metrics show of it; whether it still does is
//	                                                                   asked of logind
//	ROOT/image_manager                   who has pulled which image    who may use it. On the disk before the pull
//	ROOT/podwright.lock                  a lock of the kernel          nothing: it ends with the process and is never stale
//
// Lost, and harmless, beside what cri/podsyncer names: admission is repeated, with the
// same outcome; last errors are those of the new agent.
//
// Not in the agent's hands: containerd may keep a container whose start was cut off
// and refuse to remove it ("cannot delete running task") until it is restarted. The
// agent leaves other pods alone and goes on trying; when that has failed five times it
// says on the pod's page and in its log what helps.
//
// TestChaos in package e2e/cluster kills the agent repeatedly and checks this.
package agent
