package writer

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Writer without a sink is a memory: what was set or restored is returned.
func TestMemoryOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		m, err := New(Config{Changed: func(uid types.UID) { told = append(told, string(uid)) }})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- m.Run(ctx) }()
		synctest.Wait()
		require.ErrorIs(t, m.Run(ctx), ErrAlreadyRun)

		pod := podOf(v1.RestartPolicyAlways, "app")
		require.Nil(t, m.Get("uid"))
		m.Change("uid", func(s v1.PodStatus) v1.PodStatus { s.Phase = v1.PodFailed; return s })
		require.Nil(t, m.Get("uid"), "a pod without a status stays so")
		m.Set(pod, v1.PodStatus{Phase: v1.PodRunning})
		m.Set(pod, v1.PodStatus{Phase: v1.PodRunning})
		require.Equal(t, v1.PodRunning, m.Get("uid").Phase)
		require.Equal(t, []string{"uid"}, told, "what says the same is no change")
		m.Change("uid", func(s v1.PodStatus) v1.PodStatus { s.Message = "changed"; return s })
		require.Equal(t, "changed", m.Get("uid").Message)
		ips := []v1.PodIP{{IP: "192.0.2.1"}}
		m.Set(pod, v1.PodStatus{Phase: v1.PodRunning, PodIPs: ips})
		ips[0].IP = "192.0.2.2"
		require.Equal(t, "192.0.2.1", m.Get("uid").PodIPs[0].IP, "a copy is kept")
		require.Len(t, m.Pods(), 1)
		m.Prune(func(types.UID) bool { return false })
		require.Nil(t, m.Get("uid"))
		require.Empty(t, m.Pods())
		cancel()
		require.NoError(t, <-ended)
	})
}
