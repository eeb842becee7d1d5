package systemd

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// manager is a service manager that records its notifications.
type manager struct {
	mu     sync.Mutex
	states []string
	fail   int // number of notifications to lose
}

func (m *manager) notify(state string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail > 0 {
		m.fail--
		return false, errors.New("lost")
	}
	m.states = append(m.states, state)
	return true, nil
}

func (m *manager) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// take returns the notifications since the last call.
func (m *manager) take() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	states := m.states
	m.states = nil
	return states
}

func run(t *testing.T, n *Notifier) {
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
		require.ErrorIs(t, n.Run(ctx), ErrAlreadyRun)
	})
}

// A21, A22: a healthy agent sends a ping each half of the timeout, an unhealthy one none.
func TestWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, sick := &manager{}, error(nil)
		n, err := New(Config{Timeout: 10 * time.Second, Notify: m.notify, Check: func() error {
			m.mu.Lock()
			defer m.mu.Unlock()
			return sick
		}})
		require.NoError(t, err)
		require.NoError(t, n.Ready())
		require.Equal(t, []string{"READY=1"}, m.take())
		run(t, n)
		synctest.Wait()
		require.Equal(t, []string{"WATCHDOG=1"}, m.take())
		time.Sleep(time.Second)
		for range 5 {
			time.Sleep(4 * time.Second)
			synctest.Wait()
			require.Equal(t, []string{"WATCHDOG=1"}, m.take())
			time.Sleep(time.Second)
			synctest.Wait()
			require.Empty(t, m.take())
		}
		m.set(func() { sick = errors.New("syncloop") })
		time.Sleep(time.Minute)
		require.Empty(t, m.take())
		m.set(func() { sick, m.fail = nil, 1 })
		time.Sleep(6200 * time.Millisecond)
		synctest.Wait()
		require.Len(t, m.take(), 1, "the second attempt")
		m.set(func() { m.fail = 2 })
		time.Sleep(7 * time.Second) // before the next ping
		synctest.Wait()
		require.Empty(t, m.take(), "no third attempt")
		m.set(func() { m.fail = 1 })
		require.ErrorContains(t, n.Ready(), "lost")
	})
}

// Notifications go to the real socket of the environment (A22).
func TestEnvironment(t *testing.T) {
	healthy := func() error { return nil }
	t.Setenv("NOTIFY_SOCKET", "")
	t.Setenv("WATCHDOG_PID", "")
	t.Setenv("WATCHDOG_USEC", "")
	n, err := New(Config{Check: healthy})
	require.NoError(t, err)
	require.NoError(t, n.Ready(), "no service manager")
	run(t, n)

	for usec, says := range map[string]string{"1500000": "1.5s", "2000000": "must be longer than 2s", "x": "WATCHDOG_USEC", "-5": "WATCHDOG_USEC"} {
		t.Setenv("WATCHDOG_USEC", usec)
		_, err = New(Config{Check: healthy})
		require.ErrorContains(t, err, says)
	}
	_, err = New(Config{})
	require.EqualError(t, err, "systemd: Config.Check is required")

	socket := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenPacket("unixgram", socket)
	require.NoError(t, err)
	defer l.Close()
	t.Setenv("NOTIFY_SOCKET", socket)
	t.Setenv("WATCHDOG_USEC", "10000000")
	n, err = New(Config{Check: healthy})
	require.NoError(t, err)
	require.NoError(t, n.Ready())
	run(t, n)
	for _, want := range []string{"READY=1", "WATCHDOG=1"} {
		got := make([]byte, 100)
		length, _, err := l.ReadFrom(got)
		require.NoError(t, err)
		require.Equal(t, want, string(got[:length]))
	}
}
