// Package checkpoint stores the last status and probe results of each pod, in one small file per
// pod, for an agent that may be killed at any moment. It is the memory of a node without an API
// server, or with one that is unreachable.
//
//	store, err := checkpoint.New(checkpoint.Config{
//		File: func(uid types.UID) string { return filepath.Join(root, "pods", string(uid), "status.json") },
//	})
//	record, err := store.Load(uid)    // once, when the pod is first seen
//	err = store.Save(uid, record)     // after each change; an equal record is not written
//	err = store.Remove(uid)           // with the pod
//
// An agent uses a Keeper instead, a sink of package status/writer. It saves each pod from its
// Recall to its Forget or Drop.
//
//	keeper, err := checkpoint.NewKeeper(checkpoint.KeeperConfig{Store: store, Probes: results})
//	w, err := writer.New(writer.Config{Sinks: []writer.NamedSink{
//		{Name: "checkpoint", Sink: status.SinkFunc(keeper.Save)},
//	}})
//	record := keeper.Recall(uid)           // when the pod is first seen
//	err = w.Flush(ctx, "checkpoint", uid)  // before an action that makes the runtime forget
//	err = keeper.Forget(uid)               // when no source names the pod any longer
//
// Store and Keeper are safe for concurrent use.
//
// # Purpose
//
// A runtime forgets: it removes dead containers and does not store readiness. An agent that
// restarts without checkpoints would show a ready pod as unready until the next probe, repeat
// startup probes that have passed, and lose exit codes and restart counts of removed containers.
// An agent that always reaches its API server when it starts can use the pods' statuses from
// there (status.Probed) instead.
//
// # Guarantees
//
// A file is replaced as a whole: after kill -9 at any moment it contains the old record or the
// new one. A file that is damaged, of another pod, of another version or too large causes
// ErrCorrupt, and is set aside under its name with ".corrupt" added. Only the memory of that pod
// is lost.
//
// A power cut may cause the same for pods that were saved in the seconds before it, because Save
// does not wait for the disk. Config.Sync makes it wait: two flushes of the disk in addition to
// a fraction of a millisecond. That is much for a node that starts a hundred pods at once, and
// gains little, because no container survives a power cut.
//
// # The caller's duties
//
// Call Save before any action that makes the runtime forget, such as the removal of a dead
// container. The caller owns the folder of the file: Save creates none and returns fs.ErrNotExist
// without it, so that a removed pod's folder does not come back. The caller must also check that
// a record belongs to the pod that now has the UID.
//
// # Limits
//
// The package does not interpret records: writer.Writer.Restore applies a status, and package
// probe the probe results. It encrypts nothing. A status contains termination messages, so only
// the owner can read the files.
//
// Runnable examples: Example and ExampleNewStage in example_test.go.
package checkpoint
