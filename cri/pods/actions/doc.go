// Package actions decides what to do with a pod: from its spec and what the runtime
// has of it to the containers to stop, to remove, to start, to resize. Compute does
// nothing itself; package pods carries out what it says.
//
//	a, err := actions.Compute(actions.Input{Pod: pod, Status: status})
//	log.Debug("sync", "pod", pod.Name, "actions", a)
//
// The decision has no memory. After a crash of the agent, at whatever line, the next
// one is made from what is there. Asked again about a pod in which nothing happens,
// it comes to rest: everything runs that should, or Over tells that the pod has
// ended.
//
// # The order of decisions
//
//  1. Restart of all containers (KEP-5532), if asked for: Reset, and nothing else.
//  2. The sandbox. Without a good one everything is stopped, and a new sandbox is
//     made if any container may run in it.
//  3. Ephemeral containers that never ran.
//  4. Init containers and sidecars, from the last to the first.
//  5. Regular containers, once the pod is initialised. With none to keep and none to
//     start the pod is over, whatever sidecars do.
//  6. Resources of what keeps running (KEP-1287, KEP-2837).
//
// # The sandbox
//
//	newest sandbox                                   new one   attempt    SandboxID
//	there is none                                    yes       0          ""
//	more than one is ready                           yes       newest+1   newest
//	not ready                                        yes       newest+1   newest
//	in another network than the spec says            yes       newest+1   ""
//	lost its address (pod network)                   yes       newest+1   newest
//	otherwise                                        no        newest     newest
//
// In a new sandbox a regular container runs if it never ran, or if its policy brings
// it back. A pod with policy Never that has run gets none, unless a container's own
// policy or a restart rule brings that container back; nor does a pod of which an
// init container has failed for good. Init containers always begin anew: what
// they did in the old sandbox is gone, and PruneInit removes what is left of them.
//
// # Init containers and sidecars
//
// A regular container in the current sandbox proves that the pod is initialised: what
// plain init containers did then holds, even if nobody remembers them. Else the last
// init container with an instance in this sandbox tells how far the pod is:
//
//	newest instance    plain                         sidecar
//	none               the first starts if none      starts if a later one has had its turn
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
// A sidecar has started when it runs and has no startup probe, or this probe has
// succeeded, or a regular container was created after it. A sidecar is also restarted
// when its image changed, when its startup or liveness probe failed, or when a resize
// demands it. Its liveness never holds up the next one.
//
// # Regular containers
//
//	newest instance                     action
//	none, created                       start (a created one is removed)
//	unknown                             stop, start
//	exited                              start if policy and rules allow
//	running, other image                stop, start
//	running, liveness or startup probe  stop; start unless its policy is Never
//	failed
//	running, resize needs a restart     stop, start
//	running                             keep
//
// Other instances of the same name are stopped or removed. A pod that is being deleted
// starts nothing.
//
// # Where it goes beyond the kubelet
//
// The answers are the kubelet's, except where those lose or repeat work. A container
// that was only created counts as never run. Instances of earlier sandboxes are told
// from those of the current one, so that a completed init container is not repeated
// when all that is left of its pod is a crashed container, and not taken for complete
// after a reboot. A reset with nothing left to reset is a start. A missing record of
// actuated resources restarts nothing. While a restart rule may match the exit code
// of a container that is being stopped, its pod is not over.
//
// One thing it cannot know: a container with policy Never that was stopped because its
// image changed, by an agent that died before the start, has exited like any other.
//
// Examples that run: ExampleCompute and ExampleRestartAllTriggered in
// example_test.go.
package actions
