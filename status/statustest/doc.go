// Package statustest helps to test what writes pod statuses: a status.Sink in
// memory that can be made to fail in every way, and a suite that tests whether a
// sink keeps the contract of status.Sink.
//
// # A sink in memory
//
// NewSink is a small API server for pods: it has UIDs and resource versions, holds
// to the UID that a call names, and merges conditions by type. What others do at an
// API server is done with Put, Change and Remove. Fail says what goes wrong, and
// Calls what was called.
//
//	sink := statustest.NewSink()
//	sink.Put(pod)
//	m, err := writer.New(writer.Config{Sinks: []writer.NamedSink{{Name: "api", Sink: sink}}})
//	...
//	sink.SetDown(errors.New("no route to host"))
//
// In a synctest bubble its latency takes no time.
//
// # Testing a sink of one's own
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
// Each rule of the contract is a subtest with a harness of its own.
package statustest
