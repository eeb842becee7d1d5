// Package agent assembles podwright's packages into a node agent. The agent reads pods from
// manifests and an API server, runs them on a CRI runtime, and reports their state. cri/podsyncer
// manages each pod; this package adds the rest of a kubelet.
//
//	a, err := agent.New(agent.Config{Config: cfg, Connect: connect})
//	if err != nil {
//		return err
//	}
//	err = a.Run(ctx)
//
// The parts and the flow between them:
//
//	folder -> podsource.FileSource -> podsource.Merger -> syncloop.Loop -> podworkers.Workers -> podsyncer.Syncer
//	                                                         ^                                         |
//	                                                         +--- dirty pods --------------------------+-> runtime
//
// newInputs and newNode (build.go) list the parts, bottom-up: each depends on the Config and on the
// parts above it. Calls upward are events of the loop, or go through lifecycle.
//
// newStages lists the resources of pods on the node: folder, users, cgroup, volumes, logs,
// allocation. Volumes are unmounted when the containers have stopped. The users are released after
// that. Objects in volumes come from the API server or from volume/objects (--objects-dir). CSI
// drivers register with examples/kubelet/csi, which then retries the volumes that wait for them.
//
// Beside them run manager.Manager, csi.Registry, volume/objects.Dir, cri.HealthMonitor,
// cri/logs.Rotator, cri/images/gc.Manager, and package oom's Watcher, which reports processes that
// the kernel killed because the node was out of memory.
//
// # As a node of a cluster
//
// With a kubeconfig, newCluster builds the parts that use the API server: package apiserver's
// client, the packages on top of it (pods, mirrors, objects, csinodes, events), and package node.
// They need no runtime. They start before the connection to the runtime, so that the Node can
// report that the runtime is unavailable, and end after the parts that act on pods, so that the
// last statuses and events are written. The flow:
//
//	pods bound to the node -> pods.Source -> podsource.Merger (as "api", beside the folder)
//	podsyncer's statuses   -> status/writer -> pods.Sink; a static pod's to its mirror
//	each sync of a static pod -> mirrors.Manager
//	registration or deregistration of a CSI driver -> csinodes.Manager; without a CSINode the node is not ready
//	changed objects        -> volumes, and the loop for pods that wait for one
//	the Node               -> node.Node, Lease; its labels to admission, attached volumes to manager.Manager
//
// A source that was never read is not empty: until the first list from the API server, pods of the
// previous agent keep running.
//
// # The kubelet API
//
// With a listener, newAPI serves the kubelet API: package server's endpoints behind package auth,
// with a certificate of package certificates. The API needs no runtime and lives as long as the
// agent. Endpoints that need a runtime are built with the connection, and return 503 without it.
//
// # Metrics
//
// Config.Metrics counts the work of the parts (metrics.go has a line per constructor), and reads
// current values at each scrape. It belongs to one Agent and keeps its counts when Run is called
// again. Measures returns the handlers for both servers.
//
// # More than one
//
// A process may run several Agents, each with a runtime and a root folder of its own. Run blocks
// until its context is done and leaves the pods running. A later agent takes them over without
// restarts.
//
// # What survives a crash
//
// The agent has no database and may be killed at any time. The next agent restores its state from
// these places, in the order of cri/podsyncer:
//
//	place                                content                       use by the next agent
//	manifests                            desired pods                  desired state. UIDs are hashes of content, path
//	                                                                   and node name, or written in the manifest
//	ROOT/static_manifests                the last valid version of     desired state where a manifest is broken. On the
//	                                     each manifest                 disk before its pod is passed on
//	labels of sandboxes and containers   UID, name, namespace,         the owning pod; a pod without a manifest is stopped
//	                                     container name
//	annotations of containers            hash of name and image        whether to keep the container
//	                                     restart count, message path,  the output of /pods; stopping and judging the
//	                                     grace period, preStop         container without the manifest
//	the last dead container of a name    exit code, times              restart decision; last state; phase
//	sandboxes                            attempt, creation             name of the next one; start time, and with it
//	                                                                   activeDeadlineSeconds
//	LOGS/NAMESPACE_NAME_UID/CONTAINER    N.log                         the restart count, if the runtime has lost all
//	                                                                   instances; pods with leftover logs
//	ROOT/pods/UID                        the pod's folder              pods with leftovers: created before all other
//	                                                                   resources and removed after them
//	ROOT/pods/UID/userns                 the pod's user IDs            allocated user IDs
//	ROOT/pods/UID/volumes, plugins,      the pod's volumes, in the     possible mounts: mounted again for a running pod,
//	volume-subpaths                      layout of a kubelet           unmounted for a stopped one
//	ROOT/plugins/kubernetes.io/csi       volumes that pods share, and  possibly staged volumes: unstaged when unused
//	                                     devices
//	ROOT/plugins_registry                the drivers' own sockets      the drivers, each of which is registered again
//	ROOT/pods/UID/                       the pod's status, results     readiness and started; exit codes and restart counts
//	podwright-status.json                of its probes                 that the runtime has lost. On the disk before a sync
//	                                                                   changes anything
//	ROOT/allocated_pods_state            resources allocated to pods   the resources that pods run with and count as,
//	                                                                   not those in their specs. On the disk before use
//	ROOT/actuated_pods_state             resources of containers, as   resizes that are still to be done
//	                                     last sent to the runtime
//	ROOT/graceful_node_shutdown_state    times of the last shutdown    metrics. Whether a shutdown is in progress comes from
//	                                     of the node                   logind
//	ROOT/image_manager                   image pulls, by credentials   access to images. On the disk before the pull
//	ROOT/podwright.lock                  a lock of the kernel          none: it ends with the process and is never stale
//
// Lost without harm, besides the losses that cri/podsyncer lists: admission is repeated with the
// same result; last errors are the new agent's.
//
// # Limits
//
// containerd may keep a container whose start was interrupted and refuse to remove it ("cannot
// delete running task") until it is restarted. The agent keeps retrying without affecting other
// pods. After five failures the pod's page and the log describe the remedy.
//
// TestChaos in package e2e/cluster kills the agent repeatedly and checks this.
package agent
