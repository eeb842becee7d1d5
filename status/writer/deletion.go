package writer

import "context"

// deleted makes a DeletionReceiver receive the deletion of a dropped pod. A deletion of an earlier
// pod with the UID that it has not accepted counts for both, because it has no status of the later
// one. The caller holds Writer.mu.
func (t *target) deleted(d *delivery) {
	uid := d.entry.uid
	if t.deleter == nil || t.deletions[uid] != nil {
		return
	}
	deletion := &delivery{entry: d.entry, target: t, slot: slot{receives: true, dropped: true}}
	deletion.replace(d.pod, d.status)
	t.deletions[uid] = deletion
	t.enqueue(deletion)
}

// endDeletion removes an accepted deletion, and queues a deletion that waits for the end of this write or
// has failed. The caller holds Writer.mu.
func (t *target) endDeletion(ended *delivery) {
	uid := ended.entry.uid
	deletion := t.deletions[uid]
	switch {
	case deletion == nil:
	case deletion == ended && ended.content == removed:
		delete(t.deletions, uid)
	default:
		t.enqueue(deletion)
	}
}

// flushDeletion delivers a deletion at once. The caller holds Writer.mu, which it unlocks.
func (t *target) flushDeletion(ctx context.Context, deletion *delivery) error {
	deletion.apply(flushed)
	t.begin(deletion)
	t.w.mu.Unlock()
	return t.write(ctx, deletion)
}
