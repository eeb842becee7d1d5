package critest_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/critest"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/fake/streams"
)

// wrapped is a runtime that adds something of its own to another.
type wrapped struct{ cri.RuntimeService }

func testWrapper(t *testing.T) {
	critest.Run(t, critest.Config{Around: synctest.Test, Start: func(t *testing.T) critest.Subject {
		// The sessions of exec, attach and port-forward; without them their cases
		// are skipped.
		sessions := fake.Listen()
		server, err := streams.NewServer(streams.Config{Listener: sessions})
		require.NoError(t, err)
		// Without AnyImage, since there are cases about an image that is not there.
		rt, err := fake.New(fake.Config{
			Programs: critest.Programs, Exec: critest.Programs, Ports: critest.Ports, Streams: server,
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- server.Run(ctx, rt) }()
		t.Cleanup(func() {
			cancel()
			require.NoError(t, <-ended)
			require.NoError(t, rt.Close())
		})
		return critest.Subject{
			Runtime: wrapped{rt}, Images: rt, Image: "busybox", Hardened: true,
			DialStream: func(ctx context.Context, _, _ string) (net.Conn, error) { return sessions.DialContext(ctx) },
		}
	}})
}

// A wrapper of a runtime, tested around the fake: in memory and in virtual time,
// which takes a second or two.
func Example_wrapper() {
	_ = testWrapper
}
