// Package podworkerstest tests a PodSyncer for its author: it records the calls of pod workers,
// checks them against the rules of the pod lifecycle, makes calls fail, and runs readable
// scripts. A test of a single call needs none of this: it calls the syncer with a
// podworkers.Work.
//
// # Record
//
// Put a Recorder around the syncer, use the workers as usual, and check at the end. Inside a
// synctest bubble hours pass at once:
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
// Check returns the violated rules: a syncer that writes to its pods or ignores its cancelled
// context (CancelLimit), or workers that violate the lifecycle. Trace lists all events with
// times. On replaces single calls of the syncer, for example with a call that fails, takes an
// hour, or waits for its cancellation. Example in example_test.go is a complete program.
//
// # Views
//
// Views are functions that show the effects of the syncer. With them a Recorder finds more
// mistakes. It calls them before and after each call of the syncer and at each Check:
//
//	rec.Running(func(uid types.UID) ([]string, error) { return hypervisor.MachinesOf(uid), nil })
//	rec.Status(statuses.Get)
//	rec.Held(func(uid types.UID) ([]string, error) { return volumes.Of(uid), nil })
//
// Running finds a syncer that starts a container after termination was requested or outside of its
// calls, that does not wait for the containers that it stops, or that returns nil from an
// interrupted stop (INV-1, INV-5, INV-8), and two instances of one container (two-instances). For a
// pleg.Runtime, plegtest.RunningIDs makes such a function. For a CRI runtime such as cri/fake, use
// the pleg.Runtime of cri/pods/observe; its Example_recorder shows it. If Running never lists a
// container although SyncPod succeeded, it finds nothing, and Check reports that (blind).
//
// Status finds a terminal phase while a container runs (early-phase), a restart against the restart
// policy (restart-policy), an exit code that is lost or changes (exit-code), and a sync that acted
// on an older version of the pod (stale-pod). Held finds resources that are kept (resource-kept) or
// that a failed start left (resource-leaked). With any view, a stop that takes longer than its grace
// period is reported (slow-stop). After a restart of the agent, Follow continues the histories.
//
// # Standard lives
//
// Run plays the lives that a syncer must handle, with all views, and RunRandom plays random ones:
//
//	func TestLives(t *testing.T) {
//		podworkerstest.Run(t, func(t *testing.T) podworkerstest.Subject {
//			hypervisor := newHypervisor(t)
//			return podworkerstest.Subject{Syncer: newSyncer(hypervisor), Running: hypervisor.MachinesOf, Exit: hypervisor.Exit}
//		})
//	}
//
// # Scripts
//
// A script is a text file of paragraphs. Its first line is a comment that describes it. A
// paragraph has commands, a line ----, and the resulting events:
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
// RunScripts runs such files on real workers in bubbles, with your syncer or with one that
// follows the script only. To write a script, write the commands and let ScriptOptions.Rewrite
// add the events. A change of behaviour is then a change of the file, to be reviewed as a
// difference. Every rule is checked after each command. Events of one moment are grouped by pod.
// acted= is Work.ActedAt.
//
// Commands, about a pod with the UID a:
//
//	create, update, sync, kill a ...    UpdatePod; orphan a: as a pod without a spec
//	pod a ...                           changes the attributes of a without an update
//	known a b                           SyncKnownPods with the desired pods a and b
//	forget a                            Forget
//	state a                             prints State
//	methods a                           prints the methods of PodState that return true
//	wait 10s                            advances the clock
//	on a SyncPod: error, 5s ok          outcomes of the next calls, the last one repeated; * for all pods
//	end a error                         ends the call that has the outcome until-end, here with an error
//	run, stop                           starts Run (automatic without option hold); ends its context
//	option hold                         Run waits for the command run
//	option on-due                       Config.OnDue is set to a function without effect
//
// Attributes of a pod last until changed: static=NAME, name=NAME, grace=30, deletion-grace=30,
// deleting, phase=Failed, alive (removes deleting and the phase), image=IMAGE (of its only
// container), rev=1 (a version, shown in the trace), dead (TerminalPodStopped returns true).
// Attributes of a kill: override=10, evict, done, status=REASON. Outcomes of a call: ok,
// terminal, error TEXT, network, retry-in 5s, cancelled, panic, exit (runtime.Goexit),
// until-cancelled, grace (takes the grace period), until-end, each with an optional duration
// first, as in "5s error"; or call, which calls your syncer.
//
// # Rules
//
// Rules lists the invariants and Meaning explains them. Most are visible in the trace. Others
// are checked separately:
//
//   - The Recorder checks around the syncer that calls do not overlap (INV-1) and leave pods
//     unchanged (INV-20).
//   - Only views check the syncer's results against its effects (INV-5, INV-8, and the rules with
//     a name instead of a number).
//   - The script runner checks that UpdatePod does not block (INV-2): no time may pass in the
//     bubble.
//   - Check with workers reads the state of each pod: waiting pods show no spec, retries are
//     planned, forgotten pods leave no state, and StateUnknown has the right meaning (INV-12,
//     17, 18, 19).
package podworkerstest
