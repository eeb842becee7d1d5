// Package statustest tests writers of pod statuses and implementations of status.Sink: it has an
// in-memory status.Sink with faults, and a suite for the contract of status.Sink.
//
// # In-memory sink
//
// NewSink returns a small API server for pods: it has UIDs and resource versions, checks the UID
// of each call, and merges conditions by type. Put, Change and Remove act like other clients of
// the API server. Fail injects faults, and Calls returns the calls.
//
//	sink := statustest.NewSink()
//	sink.Put(pod)
//	w, err := writer.New(writer.Config{Sinks: []writer.NamedSink{{Name: "api", Sink: sink}}})
//	...
//	sink.SetDown(errors.New("no route to host"))
//
// In a synctest bubble its latency takes no real time.
//
// # Tests of your own sink
//
//	func TestMySink(t *testing.T) {
//		statustest.Run(t, func(t testing.TB) statustest.Harness {
//			server := startMyServer(t)
//			return statustest.Harness{
//				Sink:   NewMySink(server),
//				Create: server.Create,
//				Pod:    server.Pod,
//				Change: server.Change,
//				Remove: server.Remove,
//			}
//		})
//	}
//
// Each rule of the contract is a subtest with its own harness. A function (status.SinkFunc) needs
// no such test, and fails it because it stores no pods.
package statustest
