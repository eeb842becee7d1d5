// Package stagestest tests that a stages.Stage keeps its contract, and has one in memory
// that does.
//
//	func TestStage(t *testing.T) {
//		stagestest.Run(t, func(t testing.TB) stagestest.Harness {
//			dir := t.TempDir()
//			return stagestest.Harness{
//				Open:  func() (stages.Stage, error) { return claims.Open(dir) },
//				Holds: func(uid types.UID) bool { ... }, // a look into dir
//			}
//		})
//	}
//
// The suite opens the stage again and again on the same state, which is what an agent
// that was killed does. What it cannot do from outside is to kill within a method:
// Harness.Halfway puts the state as such a kill leaves it.
package stagestest
