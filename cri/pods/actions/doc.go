// Package actions decides the next steps of a pod. From the pod's spec and its state in the
// runtime, Compute returns the containers to stop, remove, start and resize. Package pods carries
// them out.
//
//	a, err := actions.Compute(actions.Input{Pod: pod, Status: status})
//	log.Debug("sync", "pod", pod.Name, "actions", a)
//
// Compute is pure and keeps no state, so a crash of the agent loses no decision. For a pod that
// does not change, repeated decisions converge: all desired containers run, or Over reports that
// the pod has ended.
//
// # The order of decisions
//
//  1. Restart of all containers (KEP-5532), if requested: Reset, and no other action.
//  2. The sandbox. Without a usable one all containers are stopped, and a new sandbox is
//     made if any container may run in it.
//  3. Ephemeral containers that never ran.
//  4. Init containers and sidecars, from the last to the first.
//  5. Regular containers, once the pod is initialised. If none runs and none may start, the
//     pod is over, even if sidecars run.
//  6. Resources of the containers that keep running (KEP-1287, KEP-2837).
//
// # The sandbox
//
//	newest sandbox                                   new one   attempt    SandboxID
//	none                                             yes       0          ""
//	more than one is ready                           yes       newest+1   newest
//	not ready                                        yes       newest+1   newest
//	its network mode differs from the spec           yes       newest+1   ""
//	lost its address (pod network)                   yes       newest+1   newest
//	otherwise                                        no        newest     newest
//
// In a new sandbox a regular container runs if it never ran, or if its restart policy allows a
// restart. A pod with policy Never that has run gets no new sandbox, unless a container's own
// policy or restart rule restarts that container. A pod whose init container failed for good gets
// none either. Init containers always start again, because their results ended with the old
// sandbox; PruneInit removes their instances.
//
// # Init containers and sidecars
//
// A regular container in the current sandbox proves that the plain init containers have succeeded
// in it, even if their instances no longer exist. Otherwise the last init container with an
// instance in this sandbox determines the progress:
//
//	newest instance    plain                         sidecar
//	none               the first starts if none      starts if a later one has an instance
//	                   of the pod has any
//	created            replaced                      replaced
//	running            wait                          started: the next starts, or after the last
//	                                                 the pod is initialised; else wait
//	exited, succeeded  the next starts, or after     starts
//	                   the last the pod is
//	                   initialised
//	exited, failed     starts, or if it may not      starts
//	                   restart the pod is over
//	unknown            stopped and started, or with  stopped and started
//	                   policy Never the pod is over
//
// A sidecar has started if it is running and has no startup probe, its startup probe has
// succeeded, or a regular container was created after it. A sidecar is also restarted if its
// image changed, its startup or liveness probe failed, or a resize requires it. Its liveness
// never delays the next container.
//
// # Regular containers
//
//	newest instance                     action
//	none, created                       start (a created one is removed)
//	unknown                             stop, start
//	exited                              start if policy and rules allow
//	running, different image            stop, start
//	running, liveness or startup probe  stop; start unless its policy is Never
//	failed
//	running, resize needs a restart     stop, start
//	running                             keep
//
// Further instances of the same name are stopped or removed. In a pod that is being deleted no
// container starts.
//
// # Differences from the kubelet
//
// The decisions are the same as the kubelet's, except where those lose or repeat work:
//
//   - A container that was only created counts as never run.
//   - Instances of earlier sandboxes are distinguished from instances of the current one. So a
//     completed init container is not repeated if only a crashed container remains of its pod,
//     and does not count as complete after a reboot.
//   - A reset without instances is a start.
//   - A missing record of actuated resources causes no restart.
//   - Changed resources of a container that does not run are a resize of the pod, and resizes
//     precede all starts, because the pod's cgroup bounds the new instance. The kubelet's decision
//     considers running containers only, and it starts init containers first.
//   - While a restart rule may match the exit code of a container that is being stopped, its pod
//     is not over.
//
// # Limits
//
// If a container with policy Never was stopped because its image changed, and the agent died
// before the new start, the container looks like any exited container, and is not started.
//
// See ExampleCompute and ExampleRestartAllTriggered in example_test.go.
//
// Unstable: a part of package pods that changes with each version of the kubelet.
package actions
