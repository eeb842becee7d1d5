// Package podsyncer implements podworkers.PodSyncer on a CRI runtime: it runs, probes and stops
// pods, publishes their statuses, and removes their remains. The decisions lie in other packages
// (pods, pleg, probe, status, stages); a Syncer calls them in an order that survives crashes.
//
//	syncer, err := podsyncer.New(podsyncer.Config{
//		Loop:       syncloop.Config{Pods: merger},  // the desired pods
//		Pods:       pods.Config{Runtime: runtime, RuntimeName: "containerd", Images: images, Owner: cri.Owner{Name: "edge"}},
//		Probes:     probe.Config{Probers: probers}, // a prober per kind of probe
//		Checkpoint: store,                          // the state that survives a crash
//		Stages:     list,                           // volumes, cgroups, folders
//	})
//	err = syncer.Run(ctx)
//
// This is a node agent. examples/edge is a small agent to install, examples/kubelet a complete one.
// Example in example_test.go runs; Example_threeAgents runs three agents in one process. Methods of
// a Syncer are safe for concurrent use.
//
// # Operation
//
// SyncPod waits for exclusive access to the pod and for the end of earlier pods of the same name.
// It restores saved state, observes the pod, publishes its status, prepares the stages, saves the
// pod's state, takes the next steps (cri/pods), and observes their outcome. A long sync publishes
// intermediate statuses.
//
// SyncTerminatingPod stops the containers of the last observation, then observes again, until none
// runs. It returns an error when a stop or an observation fails, or when containers still run after
// three stops; the worker then calls it again.
//
// SyncTerminatedPod releases the pod's resources. A pod that ended by itself keeps its containers,
// for their logs, until its source drops it; then the containers and the other stages are removed.
// A pod that returns under the same UID first removes the remains of its predecessor. A static pod
// that restarts always keeps its containers instead: their restart counts continue.
//
// Run observes and probes pods, removes dead containers that newer ones have replaced, collects
// garbage every minute, and releases the leftovers of orphans. These tasks have goroutines of their
// own, so a slow runtime does not delay the sync loop. While the runtime cannot be observed,
// Healthy returns the reason and the loop pauses; running containers stay. A worker and these tasks
// never change one pod at the same time.
//
// A probe result changes the status at once. The next sync applies all results to the containers.
//
// # State across crashes
//
// There is no database. The agent may be killed at any line; the next agent continues from this
// state:
//
//	where                                has                           used for
//	sources of pods                      desired pods                  desired pods, under their former UIDs
//	labels of sandboxes and containers   UID, name, namespace,         the owner; a pod without a source is a
//	                                     container name                RuntimePod, and is stopped
//	annotations of sandboxes             the pod's source              a RuntimePod of a source that was read
//	                                                                   does not wait for other sources
//	annotations of containers            hash of name and image        keeping the container
//	                                     restart count, path of the    the status; stopping and judging a container
//	                                     message, grace, preStop       without its spec
//	the last dead container of a name    exit code, times              the restart decision; last state; phase
//	sandboxes                            attempt, creation             name of the next one; start time, and with it
//	                                                                   activeDeadlineSeconds
//	logs                                 N.log                         the restart count, if the runtime lost all
//	                                                                   instances; pods with remaining logs
//	Config.Checkpoint                    the pod's status, results     readiness and startup; exit codes and restart
//	                                     of its probes                 counts that the runtime lost. Saved before a
//	                                                                   sync changes the pod
//	Config.Stages                        the resources of each stage   pods with leftovers: prepared before and
//	                                                                   released after the containers
//
// Each step stays correct if the agent dies after it:
//
//   - The name of a sandbox or container contains its attempt. While a call of a dead agent is in
//     progress, the runtime refuses the same call, so there are never two.
//   - A container that was created but never started is replaced under the same number. If the
//     runtime is still starting it, it refuses the removal; if that start succeeds, the container
//     is kept, with its log.
//   - A running container with the right hash is kept, even if no agent received the result of
//     its start. A start that failed because it was cut off counts as a restart; with
//     restartPolicy Never the pod has failed. A crash of the agent causes no other restarts.
//   - The files of a dead container are removed before the container, which points to them. A
//     pod is removed in this order: saved state, containers, sandboxes, logs, stages in reverse,
//     the folder last. The first collection removes remains that only log folders and links show.
//   - The saved status of a static pod that no source names is removed before the pod stops. The
//     next pod with its UID is a different pod.
//   - A new version of a pod waits until no pod of that name runs.
//
// Some state is lost without harm. The back-off of pulls starts anew, so a crash of the agent may
// cost one early attempt; the back-off of crashing containers continues from their last end. A stop
// that was cut off is repeated, for a RuntimePod with the shortest grace period. Counts of
// consecutive probe failures start anew. A damaged record loses the saved state of its pod only,
// and the log names it.
//
// The last status of a removed pod is lost if its sink was unavailable until the agent was killed
// and no other place has it. Run does not wait for sinks before it releases a pod.
//
// # Limits
//
// The package does not admit pods (Config.Handler.Admit), find desired pods (syncloop/podsource),
// rotate logs (cri/logs) or remove images (cri/images/gc). A program that runs single pods itself
// needs only cri/pods. Without a CRI runtime, implement podworkers.PodSyncer instead.
package podsyncer
