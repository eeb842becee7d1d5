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

// namesakePoll is the pause between checks of a pod that waits for a namesake. A check reads memory
// only.
const namesakePoll = 100 * time.Millisecond

// awaitNamesake waits until no other pod of the same name runs. Each edit of a static pod's
// manifest makes a new pod, with another UID and the same name, that starts after the end of the
// former. The workers ensure this for their own pods. Pods that a dead agent left running are
// visible in the runtime only, and are stopped as RuntimePods: without this wait both versions
// would run until the old one ends.
func (s *Syncer) awaitNamesake(ctx context.Context, pod *v1.Pod) error {
	tick := time.NewTicker(namesakePoll)
	defer tick.Stop()
	for {
		uid, found := namesake(pod, s.observer.Pods())
		if !found && s.observer.Complete() {
			return nil
		}
		podworkers.SetStep(ctx, "waiting for the end of the earlier pod with this name: "+string(uid))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("pod %s/%s: wait for the end of the earlier pod with this name (%s): %w", pod.Namespace, pod.Name, uid, ctx.Err())
		}
	}
}

// namesake returns another running pod with the pod's name.
func namesake(pod *v1.Pod, observed []observed.ListedPod) (types.UID, bool) {
	for _, p := range observed {
		if p.UID != pod.UID && p.Name == pod.Name && p.Namespace == pod.Namespace && !p.Stopped() {
			return p.UID, true
		}
	}
	return "", false
}
