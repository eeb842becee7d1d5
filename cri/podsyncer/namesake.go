package podsyncer

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/podworkers"
)

// namesakePoll is how often a pod that waits for a namesake looks whether it has
// stopped. The looks are into memory.
const namesakePoll = 100 * time.Millisecond

// awaitNamesake waits until no other pod with the name of a pod runs. Each edit of
// the manifest of a static pod makes another one, with another UID and the same
// name, that starts when the one before is gone. The workers see to that for all
// pods they know. What an agent that died has left running is known to the runtime
// only, and is stopped as a RuntimePod: without this wait both would run, for as
// long as the old one takes to end.
func (s *Syncer) awaitNamesake(ctx context.Context, pod *v1.Pod) error {
	tick := time.NewTicker(namesakePoll)
	defer tick.Stop()
	for {
		uid, found := namesake(pod, s.observer.Pods())
		if !found && s.observer.Complete() {
			return nil
		}
		podworkers.SetStep(ctx, "waiting for the end of earlier pods of the name: "+string(uid))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("pod %s/%s: wait for the end of earlier pods of the name (%s): %w", pod.Namespace, pod.Name, uid, ctx.Err())
		}
	}
}

// namesake finds another pod with the name of a pod of which something runs.
func namesake(pod *v1.Pod, observed []observed.ListedPod) (types.UID, bool) {
	for _, p := range observed {
		if p.UID != pod.UID && p.Name == pod.Name && p.Namespace == pod.Namespace && !p.Stopped() {
			return p.UID, true
		}
	}
	return "", false
}
