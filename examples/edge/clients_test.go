package main

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
)

// serve serves a runtime in memory on a socket until the end of the test.
func serve(t *testing.T, cfg fake.Config) (rt *fake.Runtime, endpoint string) {
	rt, err := fake.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rt.Close()) })
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	server := fake.NewServer(rt)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	t.Cleanup(serving.Wait)
	t.Cleanup(server.Stop)
	return rt, "unix://" + socket
}

// Clients that send no request, or do not read, are limited in number and are disconnected.
func TestIdleClientsAreDisconnected(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as the agent's timeouts")
	}
	_, endpoint := serve(t, fake.Config{})
	e := newEdge(t, endpoint)
	e.start()
	defer func() { require.NoError(t, e.end(syscall.SIGTERM)) }()
	e.until("the agent responds", func(map[string]v1.Pod) error { return nil })

	var clients sync.WaitGroup
	var responses atomic.Int32
	begin := time.Now()
	silent, err := net.Dial("tcp", e.address)
	require.NoError(t, err)
	defer silent.Close()
	writeErr := make(chan error, 1)
	go func() { // sends requests until the unread replies fill all buffers
		err := silent.SetWriteDeadline(begin.Add(5 * time.Minute))
		for err == nil {
			_, err = io.WriteString(silent, strings.Repeat("GET / HTTP/1.1\r\nHost: e\r\n\r\n", 100))
		}
		writeErr <- err
	}()
	for range 100 {
		conn, err := net.Dial("tcp", e.address)
		require.NoError(t, err)
		clients.Go(func() { // sends one request and keeps the connection
			defer conn.Close()
			_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: e\r\n\r\n")
			if _, err := conn.Read(make([]byte, 1)); err == nil {
				responses.Add(1)
			}
			_, _ = io.Copy(io.Discard, conn)
		})
	}
	time.Sleep(3 * time.Second)
	if n := responses.Load(); time.Since(begin) < 10*time.Second { // on a loaded machine some may be disconnected already
		require.LessOrEqual(t, n, int32(64))
	}
	e.until("the agent responds again", func(map[string]v1.Pod) error { return nil })
	clients.Wait() // all are disconnected
	require.EqualValues(t, 100, responses.Load())
	require.NotErrorIs(t, <-writeErr, os.ErrDeadlineExceeded, "the agent disconnected the silent client")
}
