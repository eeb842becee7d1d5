package podworkers

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// Grace period, 1.6: W9, W10, INV-6.
func TestEffectiveGrace(t *testing.T) {
	for _, tc := range []struct {
		name     string
		current  grace
		pod      *v1.Pod
		override *int64
		want     grace
	}{
		{"spec", grace{}, podOf("a", specGrace(60)), nil, grace{60, true}},
		{"spec 0", grace{}, podOf("a", specGrace(0)), nil, grace{1, true}},
		{"spec absent", grace{}, &v1.Pod{}, nil, grace{1, true}},
		{"override 0 beats spec 60 (W10)", grace{}, podOf("a", specGrace(60)), new(int64(0)), grace{1, false}},
		{"negative override", grace{}, podOf("a"), new(int64(-5)), grace{1, false}},
		{"deletion grace 0 and override 30 (W10)", grace{}, podOf("a", deletionGrace(0)), new(int64(30)), grace{1, false}},
		{"the smaller of both", grace{}, podOf("a", deletionGrace(20)), new(int64(40)), grace{20, false}},
		{"override longer than spec", grace{}, podOf("a", specGrace(10)), new(int64(40)), grace{40, false}},
		{"current 5, override 60 (W9)", grace{5, false}, podOf("a"), new(int64(60)), grace{5, false}},
		{"current 120, override 10 (W8)", grace{120, true}, podOf("a"), new(int64(10)), grace{10, false}},
		{"current from spec, without a change", grace{30, true}, podOf("a", specGrace(10)), nil, grace{30, true}},
		{"current, deletion grace shorter", grace{30, true}, podOf("a", deletionGrace(3)), nil, grace{3, false}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, effectiveGrace(tc.current, tc.pod, tc.override))
		})
	}
}

func TestKillTimeout(t *testing.T) {
	require.Equal(t, 10*time.Second, killTimeout(podOf("a", specGrace(0)), nil))
	require.Equal(t, 10*time.Second, killTimeout(&v1.Pod{}, nil))
	require.Equal(t, 90*time.Second, killTimeout(podOf("a"), new(int64(60))))
	require.Equal(t, 30*time.Second, killTimeout(podOf("a", specGrace(60), deletionGrace(20)), nil))
	require.Equal(t, 30*time.Second, killTimeout(podOf("a", deletionGrace(20)), new(int64(60))))
	require.Positive(t, killTimeout(podOf("a"), new(int64(math.MaxInt64))))
}
