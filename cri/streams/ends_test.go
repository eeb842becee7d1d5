package streams_test

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/streams"
)

// Clients that come while the server ends are seen off before Run returns.
func TestClientsComeWhileTheServerEnds(t *testing.T) {
	for range 60 {
		synctest.Test(t, func(t *testing.T) {
			n := newFakeNode(t, fake.Config{Exec: fake.Always(fake.Exit(0))})
			id := n.start(t, nil)
			var clients sync.WaitGroup
			begin := make(chan struct{})
			for c := range 6 {
				response, err := n.Exec(t.Context(), &runtimeapi.ExecRequest{ContainerId: id, Cmd: []string{"x"}, Stdout: true})
				require.NoError(t, err)
				clients.Go(func() {
					client := *n.client
					client.Protocol = streams.Protocol(c % 2)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					<-begin
					var out bytes.Buffer
					_, _ = client.Exec(ctx, response.Url, streams.Session{Stdout: &out})
				})
			}
			clients.Go(func() {
				<-begin
				n.stop()
			})
			close(begin)
			clients.Wait()
		})
	}
}
