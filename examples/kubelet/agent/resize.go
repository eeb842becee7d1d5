package agent

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/cri/pods"
)

// resized shows what a sync has made of the resources of running containers: a
// resize that failed is in progress, with reason Error, until one succeeds or there
// is nothing to resize any more. A sync that did not come to it changes nothing.
func resized(result *pods.Result, now time.Time) func(v1.PodStatus) v1.PodStatus {
	i := slices.IndexFunc(result.Entries, func(e pods.Entry) bool { return e.Action == pods.ActionResizePodInPlace })
	return func(s v1.PodStatus) v1.PodStatus {
		if i < 0 && result.Err() != nil {
			return s
		}
		begun := metav1.NewTime(now)
		s.Conditions = slices.DeleteFunc(slices.Clone(s.Conditions), func(c v1.PodCondition) bool {
			if c.Type == v1.PodResizeInProgress && c.Status == v1.ConditionTrue {
				begun = c.LastTransitionTime
			}
			return c.Type == v1.PodResizeInProgress
		})
		if i >= 0 && result.Entries[i].Err != nil {
			s.Conditions = append(s.Conditions, v1.PodCondition{
				Type: v1.PodResizeInProgress, Status: v1.ConditionTrue, LastTransitionTime: begun,
				Reason: v1.PodReasonError, Message: result.Entries[i].Err.Error(),
			})
		}
		return s
	}
}
