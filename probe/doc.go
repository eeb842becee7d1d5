// Package probe runs the liveness, readiness and startup probes of containers and
// keeps their results.
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
//	m.Results(pod.UID)      // what counts now
//
// How a container is asked is the business of a Prober: packages httpget,
// tcpsocket, grpc and exec below this one, or one's own.
//
// # Results
//
// A stored result is about one probe of one instance of a container, named by the
// container's ID, and is there only if it is known:
//
//	type       first result of a new instance   Success means     Failure means
//	liveness   Success                          nothing to do     restart the container
//	readiness  Failure                          it is ready       it is not ready
//	startup    none                             it has started    restart the container
//
// It becomes another when so many executions in a row have found the other as the
// probe's thresholds say. After a liveness Failure, or any startup result, that
// instance is not probed any more by this probe. An execution that could not be
// carried out counts neither way. A container that does not run is not ready; that it
// does not run says nothing of its liveness, and a Failure there would end an instance
// of which the runtime had only lost sight.
//
// Results travel level-triggered. Config.OnChange says what became another, and
// Results tells what there is now. A callback that blocks loses nothing and holds
// up no probe; what changes twice meanwhile is told once.
//
// # When a probe is executed
//
// While its container runs, not before initialDelaySeconds, and for liveness and
// readiness not before the container's status says that it has started. AddPod
// makes waiting probes look at once, so startup and readiness of a new instance
// are probed right away; liveness begins at its next tick. Ticks are a period
// apart; a late execution does not shift them, and those that were missed are left
// out. Trigger probes readiness at once; the next tick is a period later then.
//
// # The caller's duties
//
//   - Store a pod's status (Config.Status) before AddPod and Trigger, and call AddPod
//     on every sync.
//   - When Changed tells of a readiness or startup result, bring it into the status;
//     when it tells of a liveness or startup Failure, sync the pod, and restart the
//     container if its ID is still that of the result.
//   - Call StopLivenessAndStartup when a pod's termination begins, RemovePod when its
//     containers have stopped, and Prune every now and then.
//
// # Stopping the agent, and starting it again
//
// When Run's context ends, executions are cut off and no result changes. The next
// agent has no result for containers that ran before it, and unknown is neither
// success nor failure: what their status says stays until a probe finds something.
// Whoever keeps Results in a file can hand them to Restore: then what counted goes on
// to count, while executions in a row are counted anew.
//
// # Cost
//
// There is one timer for all probes, and a goroutine only for each execution in
// progress, of which a budget bounds the number per handler: slow commands
// never hold up HTTP requests, and containers that do not answer get at most three
// quarters of a budget. Pools and Workers show who waits, for what and for how
// long. An idle probe is a record of less than 1 KiB.
//
// # What it does not do
//
// It neither restarts containers nor computes statuses: see the packages
// cri/pods and status.
//
// Examples that run: Example and ExampleValidate in example_test.go.
package probe
