// Package stages keeps whatever a pod holds on the node besides its containers, each
// kind as a Stage of its own: folder, volumes, cgroup, users, claims, logs. The stages
// stand in a List. They are prepared in order before the pod's sandbox is made, and
// released in reverse afterwards:
//
//	                Prepare                Release(Stopped)        Release(Gone)
//	  ┌────────┬─────────┬────────┐
//	folder   users    volumes   claims      claims               logs
//	  logs                                  volumes              folder
//	                                        users
//	─────────────────────────────▶ sandbox and containers ─▶ final status ─▶ forgotten
//
// A new kind of thing is a new Stage in the list, and nothing else: no stage knows
// another one, and the syncer knows no stage by name.
//
// # Two moments
//
// Stopped is when the pod's containers have stopped for good. What they used goes then,
// and the final status waits for that: whoever reads it may give the volume to another
// pod. Gone is when no source names the pod any more and every Sink has taken its last
// status. What tells people and successors about the pod stays until then. The moments
// are podworkers.PodState.RuntimeMayBeRemoved and ContentMayBeRemoved; Entry.Release
// says which is a stage's. Between the two the syncer removes the containers.
//
// # Use
//
//	list, err := stages.New(stages.Config{Stages: []stages.Entry{
//		{Name: "folder", Release: stages.Gone, Stage: folders},
//		{Name: "volumes", Release: stages.Stopped, Stage: volumes},
//	}})
//	...
//	err = list.Prepare(ctx, pod)                 // in SyncPod, before anything is started
//	err = list.Release(ctx, uid, stages.Stopped) // when the containers have stopped
//	err = list.Release(ctx, uid, stages.Gone)    // in SyncTerminatedPod
//
// Each step runs under a timeout and is what podworkers.PodState.Step says meanwhile. A
// panic is an error. A step that does not return although its context has ended is
// left behind and named (ErrUnresponsive); until it returns nothing else is done with
// its pod, and other pods do not notice. List.Explain says how each stage stands for a
// pod.
//
// # After a crash
//
// Steps are idempotent, so an agent that was killed anywhere goes on by doing again
// what it did: Prepare for pods that are desired, Release for those that end. For pods
// that nobody names any more there is Leftovers, which each stage answers from what is
// there. A Releaser looks for pods that have leftovers and no owner, takes the pod's
// turn so that its worker does not get in, and releases them, several at a time:
//
//	releaser, err := stages.NewReleaser(stages.ReleaserConfig{
//		List: list,
//		Try:  turns.Try, // what the worker takes, too
//		Gone: func(uid types.UID) bool { return complete() && workers.State(uid).ContentMayBeRemoved() },
//	})
//	...
//	go releaser.Run(ctx)
//	releaser.Wake() // at each housekeeping
//
// # To write a stage
//
// Make it small: three methods, which need nothing of this package. Keep what is held
// in one place that survives a crash and names the pod (a folder, a file, a mount), so
// that Leftovers is a listing of it. Make the name appear before anything that could be
// left, and disappear last. Then give it to stagestest.Run, which calls it in every
// order in which an agent that is killed now and then calls it.
//
// An example that runs: Example in example_test.go.
package stages
