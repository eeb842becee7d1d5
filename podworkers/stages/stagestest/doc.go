// Package stagestest tests the contract of stages.Stage for authors of stages, and has an
// in-memory stage that meets it.
//
//	func TestStage(t *testing.T) {
//		stagestest.Run(t, func(t testing.TB) stagestest.Subject {
//			dir := t.TempDir()
//			return stagestest.Subject{
//				Open:  func() (stages.Stage, error) { return claims.Open(dir) },
//				Holds: func(uid types.UID) bool { ... }, // a look into dir
//			}
//		})
//	}
//
// The suite opens the stage repeatedly on the same state, like an agent that was killed and
// restarted. It cannot kill within a method; Subject.Halfway creates the state after such a
// kill. A failure lists the calls that led to it:
//
//	release: device busy
//	calls: Prepare pod-0001, Prepare pod-0002, Release pod-0001
//
// Code that uses stages needs no suite: it is tested with a Memory.
package stagestest
