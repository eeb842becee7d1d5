package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/probe"
)

func TestHost(t *testing.T) {
	for _, tc := range []struct{ named, pod, want string }{
		{"", "10.0.0.9", "10.0.0.9"},
		{"", "fd00::9", "fd00::9"},
		{"", "", ""},
		{"example.org", "10.0.0.9", "example.org"},
		{"example.org", "", "example.org"},
		{"[::1]", "10.0.0.9", "::1"},
		{"::1", "", "::1"},
		{"[fe80::1%eth0]", "", "fe80::1%eth0"},
		{"[10.0.0.1]", "", "[10.0.0.1]"},
		{"[x]", "", "[x]"},
		{"[", "", "["},
	} {
		got, err := Host(probe.Target{PodIP: tc.pod}, tc.named)
		require.Equal(t, tc.want, got, tc)
		if tc.want == "" {
			require.ErrorContains(t, err, "no address")
			continue
		}
		require.NoError(t, err)
	}
}

func TestTimeout(t *testing.T) {
	require.Equal(t, time.Second, Timeout(probe.Target{}))
	require.Equal(t, time.Second, Timeout(probe.Target{Timeout: -1}))
	require.Equal(t, time.Millisecond, Timeout(probe.Target{Timeout: time.Millisecond}))
}

// Problems of the container are failures; problems of the node and cancellations are errors.
func TestFailure(t *testing.T) {
	why := errors.New("removed")
	given, giveUp := context.WithCancelCause(t.Context())
	giveUp(why)
	late, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	on := func(errno syscall.Errno) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", errno)}
	}
	for name, tc := range map[string]struct {
		caller, own context.Context
		err         error
		text        string
		want        string
	}{
		"refused":             {t.Context(), t.Context(), on(syscall.ECONNREFUSED), "", "dial tcp: connect: connection refused"},
		"unreachable":         {t.Context(), t.Context(), on(syscall.EHOSTUNREACH), "", "dial tcp: connect: no route to host"},
		"own words":           {t.Context(), t.Context(), errors.New("secret"), "in short", "in short"},
		"own deadline":        {t.Context(), late, on(syscall.ECANCELED), "", "no response within 3s"},
		"caller's deadline":   {late, late, on(syscall.ECANCELED), "", "no response within 3s"},
		"deadline just ahead": {t.Context(), t.Context(), fmt.Errorf("x: %w", os.ErrDeadlineExceeded), "", "no response within 3s"},
		"cancelled":           {given, given, on(syscall.ECANCELED), "", ""},
		"no files":            {t.Context(), t.Context(), on(syscall.EMFILE), "words", ""},
		"no files at all":     {t.Context(), t.Context(), on(syscall.ENFILE), "", ""},
		"no local port":       {t.Context(), t.Context(), on(syscall.EADDRNOTAVAIL), "", ""},
		"no memory":           {t.Context(), t.Context(), on(syscall.ENOMEM), "", ""},
	} {
		got, err := Failure(tc.caller, tc.own, tc.err, tc.text, "no response within 3s")
		if tc.want == "" {
			require.Zero(t, got, name)
			require.Error(t, err, name)
			require.Equal(t, name == "cancelled", errors.Is(err, why), name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, probe.Result{Verdict: probe.Failure, Output: tc.want}, got, name)
	}
}

type pipes struct{ far []net.Conn }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	p.far = append(p.far, far)
	return near, nil
}

func TestConnsCloseAll(t *testing.T) {
	p := &pipes{}
	c := &Conns{Connect: p.dial}
	tried, err := c.Dialed()
	require.False(t, tried)
	require.NoError(t, err)
	for range 2 {
		_, err := c.Dial(t.Context(), "tcp", "a:1")
		require.NoError(t, err)
	}
	tried, err = c.Dialed()
	require.True(t, tried)
	require.NoError(t, err)
	c.Close()
	_, err = c.Dial(t.Context(), "tcp", "a:1")
	require.ErrorIs(t, err, net.ErrClosed, "a late connection is closed")
	for _, far := range p.far {
		_, err := far.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
	}
	require.Len(t, p.far, 3)

	broken := errors.New("broken")
	c = &Conns{Connect: func(context.Context, string, string) (net.Conn, error) { return nil, broken }}
	_, err = c.Dial(t.Context(), "tcp", "a:1")
	require.ErrorIs(t, err, broken)
	_, err = c.Dialed()
	require.ErrorIs(t, err, broken)
	c.Close()
}

// With patience the peer closes the connection first, if it does so in time.
func TestConnPatience(t *testing.T) {
	for name, tc := range map[string]struct {
		after time.Duration
		want  time.Duration
	}{"in time": {3 * time.Millisecond, 3 * time.Millisecond}, "late": {time.Hour, 10 * time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &pipes{}
				c := &Conns{Connect: p.dial, Patience: 10 * time.Millisecond}
				conn, err := c.Dial(t.Context(), "tcp", "a:1")
				require.NoError(t, err)
				far := time.AfterFunc(tc.after, func() { _ = p.far[0].Close() })
				defer far.Stop()
				begin := time.Now()
				require.NoError(t, conn.Close())
				require.Equal(t, tc.want, time.Since(begin))
				c.Close()
				require.Equal(t, tc.want, time.Since(begin), "once is enough")
			})
		})
	}
}
