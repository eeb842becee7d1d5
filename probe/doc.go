// Package probe executes the liveness, readiness and startup probes of containers and stores
// their results.
//
//	m, err := probe.New(probe.Config{
//		Probers: map[probe.Handler]probe.Prober{probe.HTTPGet: web},
//		Status:  statuses.Get,
//		OnChange: func(c probe.Change) { wake(c.UID) },
//	})
//	...
//	go m.Run(ctx)           // blocks until ctx is done
//	m.AddPod(pod)           // on every sync, before containers are started
//	...
//	m.Results(pod.UID)      // the current results
//
// A Prober executes one kind of probe: packages httpget, tcpsocket, grpc and exec below this
// package, or your own. A Manager is safe for concurrent use.
//
// # Results
//
// A stored result belongs to one probe of one instance of a container, identified by the
// container's ID. An unknown result is absent:
//
//	type       first result of a new instance   Success means     Failure means
//	liveness   Success                          no action         restart the container
//	readiness  Failure                          it is ready       it is not ready
//	startup    none                             it has started    restart the container
//
// A result changes after as many equal outcomes in a row as the probe's thresholds require. After
// a liveness Failure, or any startup result, this probe of the instance ends. An execution that
// could not be carried out does not count. A container that does not run is not ready, but its
// liveness result stays: a Failure would end an instance that the runtime failed to list once.
//
// Results are level-triggered. Config.OnChange reports changed results, and Results returns the
// current ones. A blocked callback neither loses changes nor delays probes; several changes of
// one result are then reported once.
//
// # Schedule
//
// A probe is executed while its container runs and initialDelaySeconds have passed; liveness and
// readiness also require that the container has started, according to its status. AddPod makes
// waiting probes check these conditions at once, so startup and readiness of a new instance are
// probed right away; liveness begins at its next tick. Ticks are one period apart. A late
// execution does not shift them, and missed ticks are skipped. Trigger probes readiness at once;
// the next tick follows a period later. The first ticks of containers that ran before the agent
// are spread over one period.
//
// # The caller's duties
//
//   - Store a pod's status (Config.Status) before AddPod and Trigger, and call AddPod on every sync.
//   - When OnChange reports a readiness or startup result, update the status. When it reports a
//     liveness or startup Failure, sync the pod, and restart the container if its ID is still the
//     ID of the result.
//   - Call StopLivenessAndStartup when a pod's termination begins, RemovePod when its containers
//     have stopped, and Prune periodically.
//
// # Stop and restart of the agent
//
// When Run's context is done, executions are cancelled and no result changes. The next agent has
// no results for containers that ran before it. Unknown is neither success nor failure: the
// status of these containers stays until a probe has a result. An agent that saved Results can
// pass them to Restore; the results then stay in effect, while outcomes in a row are counted
// anew.
//
// # Cost
//
// All probes share one timer. Each execution in progress takes a goroutine, bounded by a budget
// per handler (24 for httpGet, 10 for each other one), so slow commands never delay HTTP
// requests. Containers that do not respond get at most three quarters of a budget. Pools and
// Workers report which probes wait, why and for how long. An idle probe takes less than 1 KiB.
//
// # Limits
//
// The package neither restarts containers nor computes statuses; see packages cri/pods and
// status. If no pod has probes, no Manager is needed: status.Input.Probes stays nil.
//
// Runnable examples: Example and ExampleValidate in example_test.go.
package probe
