// Package checkpoint keeps, for an agent that may be killed at any moment, what it
// last said of each pod: one small file per pod, with the pod's status and the last
// results of its probes. It is the memory of a node that has no API server, and of
// one that cannot reach it now.
//
//	store, err := checkpoint.New(checkpoint.Config{
//		File: func(uid types.UID) string { return filepath.Join(root, "pods", string(uid), "status.json") },
//	})
//	record, err := store.Load(uid)    // once, when the pod is first seen
//	err = store.Save(uid, record)     // after each change; costs nothing if there was none
//	err = store.Remove(uid)           // with the pod
//
// In an agent a Keeper does that, as a sink of package status/writer: it keeps the
// pods whose records were recalled, until they are forgotten.
//
//	keeper, err := checkpoint.NewKeeper(checkpoint.KeeperConfig{Store: store, Probes: results})
//	w, err := writer.New(writer.Config{Sinks: []writer.NamedSink{
//		{Name: "checkpoint", Sink: status.SinkFunc(keeper.Save)},
//	}})
//	record := keeper.Recall(uid)           // when the pod is first seen
//	err = w.Flush(ctx, "checkpoint", uid)  // before the runtime is made to forget something
//	err = keeper.Forget(uid)               // when nothing names the pod any more
//
// # Why it is needed
//
// A runtime forgets: it removes dead containers, and never knew which container was
// ready. An agent that starts anew without memory would show a ready pod as unready
// until the next probe, repeat startup probes that have passed, and lose exit codes
// and restart counts of containers that are gone.
//
// # What is promised
//
// A file is replaced as a whole: whoever reads it after kill -9, at whichever line,
// finds the old record or the new one. A file that is damaged, of another pod, of
// another version or too large is ErrCorrupt, named in the error, and set aside under
// the name with ".corrupt" added. It costs the memory of that pod and of no other.
//
// A power cut may do the same to the pods that were saved in the seconds before, since
// Save does not wait for the disk. Config.Sync makes it wait, which adds two flushes of
// the disk to a fraction of a millisecond. For one pod that is little; for a node that
// starts a hundred of them it is not, and what a power cut leaves is a node without
// running containers anyhow.
//
// # The caller's duties
//
// Save comes before whatever makes the runtime forget, such as the removal of a dead
// container. The folder of the file is the caller's: Save makes none, and fails with
// fs.ErrNotExist where there is none, so that a pod that is gone does not come back as
// a folder. Whether a record is about the pod that now has the UID is the caller's to
// know as well.
//
// # What it does not do
//
// It decides nothing: what a record means to a status is package status's matter
// (writer.Writer.Restore), what it means to a probe package probe's. It encrypts nothing; a
// status holds termination messages, so the files are readable for their owner only.
//
// An example that runs: Example in example_test.go.
package checkpoint
