// Package agent puts podwright's rooms together into the node agent: it reads
// manifests from a folder, runs them as pods on a CRI runtime, and tells what it
// does. It is the reference PodSyncer, and the example to copy from.
//
// The parts and what flows between them:
//
//	folder -> podsource.FileSource -> podsource.Merger -> syncloop.Loop -> podworkers.Workers -> syncer
//	                                                         ^                                      |
//	                                     pleg.PLEG ----------+                     cri/pods.Manager +-> runtime
//
// newNode is the list of them, bottom-up: each is built from the Config and from the
// parts above it in that list. What goes the other way, such as the events of the PLEG,
// goes into the inbox, from which the loop takes it.
//
// Beside them run those that keep the node tidy: the janitor (dead containers and
// what pods have left), cri/logs.Rotator, and cri/images/gc.Manager. A worker and the
// janitor never work on one pod at the same time (turns).
//
// probe.Manager asks the containers that the statuses name, and changes the statuses
// at once where an answer does (newProbes). What an answer means to containers is
// the next sync's matter, which takes all results along. The statuses are
// written to the disk with these results (status/checkpoint).
//
// An Agent can be made any number of times in one process, each with a runtime
// and a root folder of its own. Run blocks until its context ends and leaves the
// pods running: an agent that starts later finds them and restarts nothing.
//
// # What survives a crash
//
// The agent has no database. It may be killed at any line; the next one takes over
// from what these say:
//
//	where                                what                          tells the next agent
//	manifests                            desired pods                  what should run. UIDs are hashes of content, path
//	                                                                   and node name, or written in the manifest
//	ROOT/static_manifests                the last good version of      what should run where a manifest is broken. On the
//	                                     each manifest                 disk before its pod is handed on
//	labels of sandboxes and containers   UID, name, namespace,         whose they are; orphans are pods without a manifest
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
//	ROOT/pods/UID/                       the pod's status, results     who was ready and had started; exit codes and
//	podwright-status.json                of its probes                 restart counts that the runtime has forgotten.
//	                                                                   On the disk before a sync changes anything
//	ROOT/actuated_resources              resources of containers, as   what a changed manifest changes in place
//	                                     the runtime was last told
//	ROOT/image_manager                   who has pulled which image    who may use it. On the disk before the pull
//	ROOT/podwright.lock                  a lock of the kernel          nothing: it ends with the process and is never stale
//
// Each step is taken so that the one after it may be missing:
//
//   - The name of a sandbox or container has its attempt in it. A call of a dead
//     agent that is still going on makes the runtime refuse the same one a second
//     time, so there are never two.
//   - What was created and never started is replaced, under the same number. If the
//     runtime is still starting it, it refuses the removal; if that start succeeds,
//     the container is kept, with its log.
//   - What is seen running with the right hash is kept, whoever started it and
//     whether or not anybody was told. A start that was cut off and failed for it is
//     an exit like others: it counts as a restart, and with restartPolicy Never the
//     pod has failed. These are the only starts without a cause outside.
//   - Of a dead container the files go first, then the container, which reminds of
//     them; of a pod containers, sandboxes, logs, and then the folder. What only log
//     folders and links remind of goes with the collection at the next start.
//   - Of a static pod that is stopped because nothing names it any more, the memory of
//     its status goes first. The next pod with its UID is another one.
//   - A new version of a pod waits until nothing of that name runs (awaitNamesake).
//
// Lost, and harmless: back-off of crashing containers and of pulls begins anew, so
// that a crash of the agent may cost one early attempt; a stop that was cut off is
// repeated, for an orphan with the shortest grace period; admission is repeated, with
// the same outcome; last errors are those of the new agent. How often in a row a probe
// has failed is counted anew. A damaged podwright-status.json costs what that line says,
// of that pod only, and is named in the log.
//
// Not in the agent's hands: containerd may keep a container whose start was cut off
// and refuse to remove it ("cannot delete running task") until it is restarted. The
// agent says so in its log, leaves other pods alone, and goes on trying.
//
// TestKilledDuringChurn in package e2e kills the agent again and again and checks it.
package agent
