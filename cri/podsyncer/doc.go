// Package podsyncer is the reference PodSyncer: it makes pods run on a CRI runtime,
// probes them, publishes their statuses, stops them and removes what they held. What
// is decided lies in packages of its own (pods, pleg, probe, status, stages); a Syncer
// puts them together, in the order in which they survive a crash.
//
//	syncer, err := podsyncer.New(podsyncer.Config{
//		Loop:       syncloop.Config{Pods: merger},  // the desired pods
//		Pods:       pods.Config{Runtime: runtime, RuntimeName: "containerd", Images: images},
//		Probes:     probe.Config{Probers: probers}, // a prober per kind of probe
//		Checkpoint: store,                          // the state that survives a crash
//		Stages:     list,                           // volumes, cgroups, folders
//	})
//	err = syncer.Run(ctx)
//
// That is a node agent. examples/edge is one that can be installed, examples/kubelet a
// complete one.
//
// # What it does
//
// SyncPod waits until nobody else works on the pod and no earlier pod of its name runs,
// restores what was saved of it, observes, publishes the status, prepares the stages,
// saves what it knows, does the next steps (cri/pods), and looks at their outcome. While
// that takes long the status is published as it becomes.
//
// SyncTerminatingPod stops what is known first and looks afterwards, until nothing runs.
//
// SyncTerminatedPod releases what the pod used. A pod that ended by itself keeps its
// containers, for their logs, until its source drops it; then they go, and the other
// stages with them. A pod that comes back under its UID first removes what its
// predecessor has left.
//
// Run observes and probes, removes dead containers that newer ones have replaced,
// collects garbage every minute, and releases pods that have left something and that
// nobody owns: the loop only wakes it (Cleaner), so a slow runtime keeps no pod waiting.
// A pod's worker and Run never work on one pod at the same time.
//
// What a probe answers changes the status at once; what it means to containers is the
// next sync's matter, which takes all results along.
//
// # What survives a crash
//
// There is no database. The agent may be killed at any line; the next one takes over
// from what these say:
//
//	where                                what                          tells the next agent
//	sources of pods                      desired pods                  what should run, under the UIDs that it had
//	labels of sandboxes and containers   UID, name, namespace,         whose they are; a pod without a source is a
//	                                     container name                RuntimePod, and is stopped
//	annotations of containers            hash of name and image        that it is not to be replaced
//	                                     restart count, where the      what its status shows; how to stop and judge it
//	                                     message is, grace, preStop    without its spec
//	the last dead container of a name    exit code, times              whether it is restarted; last state; phase
//	sandboxes                            attempt, creation             name of the next one; start time, and with it
//	                                                                   activeDeadlineSeconds
//	logs                                 N.log                         the restart count, if the runtime has lost all
//	                                                                   instances; of whom logs are left
//	Config.Checkpoint                    the pod's status, results     who was ready and had started; exit codes and
//	                                     of its probes                 restart counts that the runtime has forgotten.
//	                                                                   Saved before a sync changes anything
//	Config.Stages                        what each stage holds         of which pods something is left: prepared before
//	                                                                   and released after the containers
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
//     them; of a pod what was saved, containers, sandboxes, logs, and then the stages
//     in reverse, of which the folder is the last. What only log folders and links
//     remind of goes with the first collection.
//   - Of a static pod that is stopped because nothing names it any more, the saved
//     status goes first. The next pod with its UID is another one.
//   - A new version of a pod waits until nothing of that name runs.
//
// Lost, and harmless: back-off of pulls begins anew, so that a crash of the agent may
// cost one early attempt (that of crashing containers goes on from their last end); a
// stop that was cut off is repeated, for a RuntimePod with the shortest grace period.
// How often in a row a probe has failed is counted anew. A damaged record costs what
// was saved of that pod only, and is named in the log.
//
// Lost, if nothing else has it: the last status of a pod that has gone, if its sink was
// away until the agent was killed. Run waits for no sink before it releases a pod.
//
// # What it does not do
//
// It does not admit pods (Config.Handler.Admit), find out which there should be
// (syncloop/podsource), rotate logs (cri/logs) or remove images (cri/images/gc).
//
// An example that runs: Example in example_test.go.
package podsyncer
