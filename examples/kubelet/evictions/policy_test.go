package evictions

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podwright/podwright/syncloop/eviction"
)

// N32: without evictionHard the defaults apply; with it only its thresholds, unless they are
// merged. The usage of all pods has a threshold if node allocatable is enforced for pods.
func TestPolicy(t *testing.T) {
	signals := func(k kubeletv1beta1.KubeletConfiguration) (out []eviction.Signal) {
		p, err := Policy(&k)
		require.NoError(t, err)
		for _, t := range p.Thresholds {
			out = append(out, t.Signal)
		}
		return out
	}
	some := map[string]string{"memory.available": "200Mi"}
	require.Equal(t, []eviction.Signal{"memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree"}, signals(kubeletv1beta1.KubeletConfiguration{}))
	require.Equal(t, []eviction.Signal{"memory.available"}, signals(kubeletv1beta1.KubeletConfiguration{EvictionHard: some}))
	require.Len(t, signals(kubeletv1beta1.KubeletConfiguration{EvictionHard: some, MergeDefaultEvictionSettings: new(true)}), 5)
	require.Equal(t, []eviction.Signal{"memory.available", "allocatableMemory.available"}, signals(kubeletv1beta1.KubeletConfiguration{EvictionHard: some, EnforceNodeAllocatable: []string{"pods"}}))

	p, err := Policy(&kubeletv1beta1.KubeletConfiguration{
		EvictionHard: map[string]string{}, EvictionSoft: map[string]string{"pid.available": "5%"}, EvictionSoftGracePeriod: map[string]string{"pid.available": "30s"},
		EvictionMinimumReclaim: map[string]string{"pid.available": "10"}, EvictionMaxPodGracePeriod: 7,
		EvictionPressureTransitionPeriod: metav1.Duration{Duration: time.Minute}, LocalStorageCapacityIsolation: new(false),
	})
	require.NoError(t, err)
	require.Equal(t, eviction.Policy{
		Thresholds: []eviction.Threshold{{Signal: "pid.available", Value: eviction.Value{Percent: 5}, Grace: 30 * time.Second, MinReclaim: eviction.Value{Amount: 10}}},
		Transition: time.Minute, MaxPodGrace: 7,
	}, p)
}

// A negative limit leaves each pod its own grace period, without an overflow of the kill timeout.
func TestUnlimitedPodGrace(t *testing.T) {
	p, err := Policy(&kubeletv1beta1.KubeletConfiguration{EvictionMaxPodGracePeriod: -1})
	require.NoError(t, err)
	require.Greater(t, p.MaxPodGrace, int64(365*24*3600))
	require.Positive(t, eviction.Victim{GraceSeconds: p.MaxPodGrace}.KillTimeout())
}

func TestPolicyErrorsNameTheField(t *testing.T) {
	_, err := Policy(&kubeletv1beta1.KubeletConfiguration{
		EvictionHard: map[string]string{"memory.available": "1e40", "disk": "1"}, EvictionSoft: map[string]string{"nodefs.available": "1Gi"},
		EvictionPressureTransitionPeriod: metav1.Duration{Duration: -time.Second},
	})
	for _, want := range []string{"evictionHard[memory.available]", "evictionHard[disk]", "evictionSoft[nodefs.available]", "evictionPressureTransitionPeriod: -1s"} {
		require.ErrorContains(t, err, want)
	}
}
