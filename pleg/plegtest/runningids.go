package plegtest

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg"
)

// RunningIDs returns a function for Recorder.Running of podworkerstest: it returns the IDs of a
// pod's running containers by PodStatus.
func RunningIDs(ctx context.Context, runtime pleg.Runtime) func(uid types.UID) ([]string, error) {
	return func(uid types.UID) ([]string, error) {
		s, err := runtime.PodStatus(ctx, uid)
		if err != nil {
			return nil, err
		}
		var ids []string
		for _, c := range s.Running() {
			ids = append(ids, c.ID.String())
		}
		return ids, nil
	}
}
