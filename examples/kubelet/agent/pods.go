package agent

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/status/checkpoint"
)

// Pods returns the pods that a source names and the pods that are not finished, sorted by namespace
// and name. Each pod has its newest computed status. A pod without one has the status saved by an
// earlier agent, unchanged, or else its source's status. notes lists the gaps of the result. Pods
// returns an error while the pods are unknown: the agent does not run, or no source has been read.
func (a *Agent) Pods() (pods []v1.Pod, notes []string, err error) {
	in := a.inputs.Load()
	n, err := a.connected.get()
	if in == nil {
		return nil, nil, fmt.Errorf("pods not available: the agent is %w", err)
	}
	known, silent, err := in.sources.podsRead()
	if err != nil {
		return nil, nil, fmt.Errorf("pods not available: %w", err)
	}
	if len(silent) > 0 {
		notes = append(notes, unreadText(silent)+": their pods are missing")
	}
	computed := func(types.UID) *v1.PodStatus { return nil }
	if n != nil {
		maps.Copy(known, n.lifecycle.current())
		computed = n.syncer.Statuses().Get
	}
	unseen := 0
	pods = []v1.Pod{}
	for uid, pod := range known {
		p := *pod
		s := computed(uid)
		if s == nil {
			unseen++
			s = saved(in.checkpoint, uid, a.log)
		}
		if s != nil {
			p.Status = *s
		}
		pods = append(pods, p)
	}
	if unseen > 0 {
		notes = append(notes, fmt.Sprintf("pods not observed yet: %d; they have their saved status, or Pending", unseen))
	}
	slices.SortFunc(pods, func(a, b v1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	return pods, notes, nil
}

// saved returns the status that an earlier agent saved for a pod, or nil. It reads the file at each
// call, because such calls end when the pod gets a computed status.
func saved(store *checkpoint.Store, uid types.UID, log *slog.Logger) *v1.PodStatus {
	record, err := store.Load(uid)
	// Load renames a corrupt file, so this is logged once.
	if errors.Is(err, checkpoint.ErrCorrupt) {
		log.Error("saved status of a pod lost", "podUID", uid, "err", err)
	}
	if err != nil {
		return nil
	}
	return &record.Status
}
