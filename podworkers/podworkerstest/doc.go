// Package podworkerstest tests a PodSyncer: it records what pod workers do with it,
// checks that against the rules of the pod lifecycle, makes calls fail, and plays
// readable scripts.
//
// # Record
//
// Put a Recorder around your syncer, use the workers as you always do, and ask it
// in the end. Inside a synctest bubble hours pass in no time:
//
//	func TestMySyncer(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			cfg := podworkers.Config{Syncer: newMySyncer()}
//			rec := podworkerstest.Record(&cfg)
//			workers, err := podworkers.New(cfg)
//			...
//			go workers.Run(ctx)
//			workers.UpdatePod(podworkers.Update{Type: podworkers.UpdateCreate, Pod: pod})
//			time.Sleep(10 * time.Minute)
//			synctest.Wait()
//			if err := rec.Check(workers); err != nil {
//				t.Error(err, "\n", rec.Trace())
//			}
//		})
//	}
//
// Check says which rule was broken, by whom: a syncer that writes to its pods, that
// does not listen when it is cancelled (CancelLimit), or workers that do something
// wrong. Trace prints all that happened, with times. On replaces single calls of
// the syncer: one that fails, that takes an hour, that waits to be cancelled.
//
// A Recorder that is told how to look at what really runs of a pod finds more:
//
//	rec.Running(func(uid types.UID) ([]string, error) { return hypervisor.MachinesOf(uid), nil })
//
// A syncer that starts something after termination was requested or outside of its
// calls, that does not wait for what it stops, or that answers an interrupted stop
// with nil. For a pleg.Runtime, plegtest.RunningIDs makes such a function; for a CRI
// runtime, such as cri/fake, that is the one of cri/pods/observe, whose Example_recorder
// shows it.
//
// # Scripts
//
// A script is a text file of paragraphs. Its first line says what it shows. A
// paragraph has commands, a line ----, and what came of them:
//
//	# W8: less grace interrupts a stop that is running.
//
//	on a SyncTerminatingPod: grace
//	kill a grace=120
//	----
//	0s a: Unknown -> TerminationRequested
//	0s a: TerminationRequested -> Terminating
//	0s a: SyncTerminatingPod begins grace=120
//
//	wait 10s
//	kill a override=10
//	----
//	10s a: cancelled: the grace period was shortened
//	10s a: SyncTerminatingPod ends: context canceled
//	10s a: SyncTerminatingPod begins grace=10 acted=10s
//
// RunScripts plays such files on real workers in bubbles, with your syncer or one
// that only does what the script says. To write one, write the commands and let
// ScriptOptions.Rewrite fill in the rest; a change of behaviour is then a change of
// the file, to be reviewed as a difference. Every rule is checked after each
// command. The lines of one moment are grouped by pod; acted= is Work.ActedAt.
//
// The commands, about a pod with the UID a:
//
//	create, update, sync, kill a ...    UpdatePod; orphan a: as only the runtime knows it
//	pod a ...                           says what a is like, without telling the workers
//	known a b                           SyncKnownPods: these are desired
//	forget a                            Forget
//	state a                             prints what State says
//	ask a                               prints the questions of PodState that are answered with yes
//	wait 10s                            lets time pass
//	on a SyncPod: error, 5s ok          how the next calls go, the last one for good; * for all pods
//	end a error                         ends a call that is held
//	run, stop                           Run begins, unless option hold it has; its context ends
//	option hold, option asks            Run waits for run; Config.OnDue is set and does nothing
//
// What a pod is like lasts until it is said otherwise: static=NAME, name=NAME,
// grace=30, deletion-grace=30, deleting, phase=Failed, alive (neither), image=IMAGE
// (of its only container), rev=1 (a version, shown in the trace), dead (TerminalPodStopped says so). A kill has
// override=10, evict, done, status=REASON. A call goes: ok, terminal, error TEXT,
// network, retry-in 5s, cancelled, panic, exit, until-cancelled, grace (takes the grace period),
// held (until end), each with a time before it that it takes, as in "5s error"; or
// call, which calls your syncer.
//
// # What is checked
//
// Rules lists the invariants, Meaning explains them. Most are seen in the trace.
// Others are not, and are checked otherwise: that calls really do not overlap (INV-1)
// and leave pods unchanged (INV-20) by the Recorder, as it stands around the syncer;
// that what it says of containers is true (INV-5, INV-8) only with Recorder.Running;
// that UpdatePod does not block (INV-2) by the script runner, as no time may pass in
// the bubble; that waiting pods show no spec, retries are planned, nothing is
// remembered of forgotten pods and unknown means the right thing (INV-12, 17, 18,
// 19) by Check with workers, which asks for the state of each pod.
//
// An example that runs: Example in example_test.go.
package podworkerstest
