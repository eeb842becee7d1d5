// Package stages prepares and releases the resources that a pod has on the node besides its
// containers: folder, volumes, cgroup, users, claims, logs. Each kind is a Stage. A List
// prepares its stages in order before the pod's sandbox is created, and releases them in reverse
// order afterwards:
//
//	                Prepare                Release(Stopped)        Release(Gone)
//	  ┌────────┬─────────┬────────┐
//	folder   users    volumes   claims      claims               logs
//	  logs                                  volumes              folder
//	                                        users
//	─────────────────────────────▶ sandbox and containers ─▶ final status ─▶ forgotten
//
// A new kind of resource is a new Stage in the list, without other changes: stages are
// independent of each other, and the syncer refers to none by name. Pods that have only
// containers need no stages.
//
// # Use
//
//	list, err := stages.New(stages.Config{Stages: []stages.Entry{
//		{Name: "folder", Release: stages.Gone, Stage: folders},
//		{Name: "volumes", Release: stages.Stopped, Stage: volumes},
//	}})
//	...
//	err = list.Prepare(ctx, pod)                 // in SyncPod, before anything is started
//	err = list.Release(ctx, uid, stages.Stopped) // in SyncTerminatedPod
//	err = list.Release(ctx, uid, stages.Gone)    // then, if no source names the pod; otherwise later, by a Releaser
//
// List and Releaser are safe for concurrent use. Example in example_test.go is a complete
// program.
//
// # Moments of release
//
// Entry.Release selects one of two moments. Stopped: the pod's containers have stopped for good
// (podworkers.PodState.RuntimeMayBeRemoved). Resources of the running pod are released, and the
// final status waits for that, because its readers may give the volume to another pod. Gone: no
// source names the pod any longer, and its containers are removed. Resources that describe the
// pod to people and to successors stay until then.
//
// # Timeouts
//
// Each step has a timeout and is shown in podworkers.PodState.Step. A panic becomes an error. If
// a step does not return within 1 s after its context is done, the call fails with
// ErrUnresponsive and the step's name. A call of Leftovers has 10 s. Until the step returns, no
// other step of its pod runs; other pods are not affected. List.Explain returns the state of
// each stage for a pod.
//
// # After a crash
//
// Steps are idempotent, so a restarted agent repeats them: Prepare for desired pods, Release for
// ending ones. For orphaned pods each stage lists its Leftovers from the actual state. A
// Releaser finds pods with leftovers and without an owner, locks each against its worker, and
// releases up to eight in parallel:
//
//	releaser, err := stages.NewReleaser(stages.ReleaserConfig{
//		List: list,
//		Try:  locks.Try, // a lock per pod, which the syncer also takes
//		Gone: func(uid types.UID) bool { return !named(uid) && workers.State(uid).ShouldBeFinished() && stopped(uid) },
//	})
//	...
//	go releaser.Run(ctx)
//	releaser.Wake() // at each housekeeping
//
// # How to write a stage
//
// Keep it small: three methods, without dependencies on this package. Keep its state in one
// place that survives a crash and names the pod (a folder, a file, a mount), so that Leftovers
// only lists that place. Create the name before all other resources and remove it last. Test the
// stage with stagestest.Run, which also simulates an agent that is killed between two calls.
package stages
