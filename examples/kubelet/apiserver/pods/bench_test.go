package pods_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/syncloop"
)

// BenchmarkChange is a change of one of 100 pods, from the server's side until the merger
// has it.
func BenchmarkChange(b *testing.B) {
	server, client := connect(b)
	changed := make([]*v1.Pod, 100)
	for i := range changed {
		changed[i] = pod(fmt.Sprint("pod-", i), "worker")
		server.Put(changed[i])
	}
	s := newSource(b, client)
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, func(syncloop.Event) {}) }()
	arrived := func(n int, message string) func() bool {
		return func() bool { p := s.names(b)[changed[n].Name]; return p != nil && p.Status.Message == message }
	}
	require.Eventually(b, arrived(0, ""), 10*time.Second, time.Millisecond)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		n, message := i%100, fmt.Sprint(i)
		changed[n].Status.Message = message
		server.Put(changed[n])
		for !arrived(n, message)() {
			time.Sleep(20 * time.Microsecond)
		}
		i++
	}
	stop()
	require.NoError(b, <-done)
}
