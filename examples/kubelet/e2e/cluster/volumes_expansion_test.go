package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Mounted volumes grow, and their claims report the progress. A volume that cannot grow is left to
// its controller, and its pod continues.
func testExpansion(t *testing.T, s *storage) {
	s.ready(t, "grows")
	s.ready(t, "toolarge")
	ids, impossible := s.ids(t), s.handle(t, "toolarge")
	size := func() string {
		return s.exec(t, "grows/c", "sh", "-c", "df -k /v | tail -n 1 | awk '{printf $2}'")
	}
	require.Equal(t, "4096", size())
	var meanwhile atomic.Value
	s.setFault(func(ctx context.Context, method, handle string) error {
		switch {
		case method != "NodeExpandVolume":
		case handle == impossible:
			return status.Error(codes.OutOfRange, "no volume is that large")
		default:
			meanwhile.CompareAndSwap(nil, s.expansion(ctx, "grows"))
		}
		return nil
	})
	defer s.setFault(noFault)
	for _, claim := range []string{"grows", "toolarge"} {
		s.do(t, "patch", "pvc", claim, "-p", `{"spec":{"resources":{"requests":{"storage":"8Mi"}}}}`)
	}
	becomes := func(claim, want string) {
		t.Helper()
		s.until(t, claim+" becomes "+want, func() error {
			if got := s.expansion(t.Context(), claim); got != want {
				// Expansion happens at the pod's sync. The annotation triggers one early.
				s.do(t, "annotate", "pod", claim, "looked-at="+fmt.Sprint(len(got)+len(s.driver.Log())), "--overwrite")
				return errors.New(got)
			}
			return nil
		})
	}
	becomes("grows", "8Mi [] []")
	require.Equal(t, "4Mi [NodeResizeInProgress] [FileSystemResizePending]", meanwhile.Load())
	require.Equal(t, "8192", size())
	s.waitEventText(t, "Pod", "grows", "FileSystemResizeSuccessful", "8388608")
	s.waitEventText(t, "PersistentVolumeClaim", "grows", "FileSystemResizeSuccessful", "8388608")
	becomes("toolarge", "4Mi [NodeResizeInfeasible] [FileSystemResizePending NodeResizeError]")
	s.waitEventText(t, "Pod", "toolarge", "VolumeResizeFailed", "no volume is that large")
	s.ready(t, "toolarge")
	now := s.ids(t)
	for _, pod := range []string{"grows/c", "toolarge/c"} {
		require.Equal(t, ids[pod], now[pod])
	}
}

func (s *storage) expansion(ctx context.Context, claim string) string {
	c, err := s.api.PersistentVolumeClaims(s.namespace).Get(ctx, claim, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	statuses, conditions := []v1.ClaimResourceStatus{}, []v1.PersistentVolumeClaimConditionType{}
	for _, at := range c.Status.AllocatedResourceStatuses {
		statuses = append(statuses, at)
	}
	for _, condition := range c.Status.Conditions {
		conditions = append(conditions, condition.Type)
	}
	return fmt.Sprint(c.Status.Capacity.Storage(), " ", statuses, " ", conditions)
}
