// Package statustest tests writers of pod statuses and implementations of status.Sink: it has an
// in-memory status.Sink with faults, and a suite for the contracts of status.Sink and
// status.Receiver.
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
//		statustest.Run(t, func(t testing.TB) statustest.Subject {
//			server := startMyServer(t)
//			return statustest.Subject{
//				Sink:   NewMySink(server),
//				Create: server.Create,
//				Pod:    server.Pod,
//				Change: server.Change,
//				Remove: server.Remove,
//			}
//		})
//	}
//
// Each rule of the contract is a subtest with its own Subject. A function (status.SinkFunc) or
// another status.Receiver is tested for the rules of Receivers: order, skipped and repeated statuses,
// the end of the context, errors, and deletions if it is a status.DeletionReceiver. Its Subject needs
// only Sink and Pod, which reads the destination:
//
//	statustest.Subject{
//		Sink: status.SinkFunc(client.Publish),
//		Pod:  broker.Pod,                // its status, or nil
//		Fail: broker.RefuseMessages,     // optional
//		Hang: broker.HoldConnections,    // optional
//	}
package statustest
