package shutdown_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/shutdown"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// login is a Login that a test controls.
type login struct {
	mu         sync.Mutex
	down       bool
	connectErr error
	hangs      bool // Connect hangs
	short      bool // the delay is too short
	locks      int
	closing    func() // is called by the Close of a lock
	signals    chan bool
	node       *testNode
}

func (l *login) Connect(ctx context.Context, delay time.Duration) (shutdown.Session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hangs {
		l.mu.Unlock()
		<-ctx.Done()
		l.mu.Lock()
		return nil, ctx.Err()
	}
	if l.connectErr != nil {
		return nil, l.connectErr
	}
	l.node.record("connect %v", delay)
	if l.short {
		return nil, fmt.Errorf("login: %w", shutdown.ErrDelayTooShort)
	}
	l.signals = make(chan bool, 8)
	return &session{l, l.signals}, nil
}

func (l *login) signal(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
	if l.connectErr == nil {
		l.signals <- down
	}
}

// disconnect closes the connection; later ones fail with err until it is nil.
func (l *login) disconnect(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.connectErr = err
	if l.signals != nil {
		close(l.signals)
		l.signals = nil
	}
}

func (l *login) heldLocks() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.locks
}

type session struct {
	l       *login
	signals chan bool
}

func (s *session) Signals() <-chan bool { return s.signals }
func (s *session) Close() error         { return nil }

func (s *session) GoingDown(context.Context) (bool, error) {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	return s.l.down, nil
}

func (s *session) Lock(context.Context) (io.Closer, error) {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	s.l.locks++
	return closer(sync.OnceFunc(func() {
		s.l.mu.Lock()
		defer s.l.mu.Unlock()
		s.l.locks--
		if s.l.closing != nil {
			s.l.mu.Unlock()
			defer s.l.mu.Lock()
			s.l.closing()
		}
	})), nil
}

type closer func()

func (c closer) Close() error { c(); return nil }

// testNode is the node: pods with the durations of their ends, -1 for pods that never end.
type testNode struct {
	mu        sync.Mutex
	start     time.Time
	events    []string
	pods      []*v1.Pod
	stopTimes map[string]time.Duration
}

// twoPods returns a world with a critical pod and one, low, whose end takes a while.
func twoPods(low time.Duration) *testNode {
	return &testNode{
		pods:      []*v1.Pod{pod("critical", 2_000_000_000, 60), pod("low", 0, 60)},
		stopTimes: map[string]time.Duration{"low": low},
	}
}

// record records an event with the seconds since the start.
func (w *testNode) record(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, fmt.Sprintf("%v ", time.Since(w.start).Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

func (w *testNode) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	events := w.events
	w.events = nil
	return events
}

func (w *testNode) kill(ctx context.Context, p *v1.Pod, seconds int64) error {
	w.record("kill %s %d", p.Name, seconds)
	takes := w.stopTimes[p.Name]
	if takes < 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	time.Sleep(takes)
	w.record("ended %s", p.Name)
	return nil
}

// start runs a Manager until the end of the test or a call of the returned function.
func start(t *testing.T, w *testNode, l *login, change func(*shutdown.Config)) (*shutdown.Manager, func() error) {
	w.start, l.node = time.Now(), w
	cfg := shutdown.Config{
		Periods:  shutdown.Periods(15*time.Second, 5*time.Second),
		Login:    l,
		Pods:     func() []*v1.Pod { return w.pods },
		Kill:     w.kill,
		OnChange: func(down bool) { w.record("going down %v", down) },
	}
	if change != nil {
		change(&cfg)
	}
	m, err := shutdown.New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- m.Run(ctx) }()
	synctest.Wait()
	stop := sync.OnceValue(func() error { cancel(); return <-result })
	t.Cleanup(func() { _ = stop() })
	return m, stop
}

// N35
func TestGroupsStopInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &testNode{
			pods:      []*v1.Pod{pod("critical", 2_000_000_000, 60), pod("blocked", 0, 60), pod("quick", 0, 3)},
			stopTimes: map[string]time.Duration{"blocked": -1, "quick": 2 * time.Second, "critical": time.Second},
		}
		l := &login{}
		m, _ := start(t, w, l, func(c *shutdown.Config) {
			c.Unmounted = func(_ context.Context, pods []*v1.Pod) error {
				time.Sleep(time.Second)
				w.record("unmounted %d", len(pods))
				return nil
			}
			c.Flush = func(context.Context) error { w.record("flush, locks %d", l.heldLocks()); return nil }
		})
		require.NoError(t, m.Admit(pod("before", 0, 0), nil))
		require.Equal(t, 1, l.heldLocks())
		l.signal(true)
		synctest.Wait()
		var why *syncloop.Rejection
		require.ErrorAs(t, m.Admit(pod("late", 0, 0), nil), &why)
		require.Equal(t, syncloop.Rejection{Reason: "NodeShutdown", Message: "Pod was rejected as the node is shutting down."}, *why)
		time.Sleep(time.Minute)
		events := w.take()
		require.Equal(t, []string{"0s connect 15s", "0s going down true"}, events[:2])
		require.ElementsMatch(t, []string{"0s kill blocked 10", "0s kill quick 3"}, events[2:4])
		require.Equal(t, "2s ended quick", events[4])
		require.ElementsMatch(t, []string{"11s unmounted 2", "11s kill critical 5"}, events[5:7])
		require.Equal(t, []string{"12s ended critical", "13s unmounted 1", "13s flush, locks 1"}, events[7:])
		require.Zero(t, l.heldLocks(), "the shutdown is no longer delayed")
		require.True(t, m.GoingDown(), "the node stays in shutdown")
	})
}

// N35
func TestCancelledShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := twoPods(4 * time.Second)
		l := &login{}
		path := filepath.Join(t.TempDir(), shutdown.TimesFile)
		m, _ := start(t, w, l, func(c *shutdown.Config) { c.TimesFile = path })
		l.signal(true)
		time.Sleep(2 * time.Second)
		l.signal(false)
		time.Sleep(time.Minute)
		require.Equal(t, []string{"0s connect 15s", "0s going down true", "0s kill low 10", "2s going down false", "4s ended low"}, w.take())
		require.NoError(t, m.Admit(pod("after", 0, 0), nil))
		require.Equal(t, 1, l.heldLocks())
		times, err := shutdown.ReadTimes(path)
		require.NoError(t, err)
		require.Equal(t, 2*time.Second, times.End.Sub(times.Start))

		l.signal(true)
		time.Sleep(time.Minute)
		require.Contains(t, w.take(), "1m6s kill critical 5")
		require.Zero(t, l.heldLocks())
	})
}

func TestConnectionLostDuringShutdown(t *testing.T) {
	for _, c := range []struct {
		name       string
		downAfter  bool
		wantEnding string
		locks      int
	}{{"the shutdown continues", true, "4s kill critical 5", 0}, {"the shutdown was cancelled meanwhile", false, "3s going down false", 1}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := twoPods(4 * time.Second)
				l := &login{}
				m, _ := start(t, w, l, nil)
				l.signal(true)
				time.Sleep(time.Second)
				l.disconnect(errors.New("no bus"))
				time.Sleep(1500 * time.Millisecond)
				require.Equal(t, 1, l.heldLocks(), "the lock outlives the connection")
				l.signal(c.downAfter)
				l.disconnect(nil)
				time.Sleep(time.Minute)
				require.Contains(t, w.take(), c.wantEnding)
				require.Equal(t, c.downAfter, m.GoingDown())
				require.Equal(t, c.locks, l.heldLocks())
			})
		})
	}
}

func TestLockIsReleasedWithoutConnection(t *testing.T) {
	for name, hangs := range map[string]bool{"Connect fails": false, "Connect hangs": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, l := &testNode{pods: []*v1.Pod{pod("low", 0, 60)}, stopTimes: map[string]time.Duration{"low": 4 * time.Second}}, &login{}
				start(t, w, l, nil)
				l.signal(true)
				time.Sleep(time.Second)
				l.mu.Lock()
				l.hangs = hangs
				l.mu.Unlock()
				l.disconnect(errors.New("no bus"))
				time.Sleep(2500 * time.Millisecond)
				require.Equal(t, 1, l.heldLocks())
				time.Sleep(time.Second)
				require.Zero(t, l.heldLocks(), "the lock is released after the pods have stopped")
			})
		})
	}
}

func TestTooShortDelayIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := &testNode{}, &login{short: true}
		start(t, w, l, nil)
		time.Sleep(150 * time.Second)
		require.Equal(t, []string{"0s connect 15s", "1m0s connect 15s", "2m0s connect 15s"}, w.take())
	})
}

func TestRestartDuringShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := twoPods(-1)
		l := &login{}
		path := filepath.Join(t.TempDir(), shutdown.TimesFile)
		began := time.Now()
		_, stop := start(t, w, l, func(c *shutdown.Config) { c.TimesFile = path })
		l.signal(true)
		time.Sleep(3 * time.Second)
		require.NoError(t, stop())
		require.NotContains(t, w.take(), "3s kill critical 5", "a stop of the agent stops no pods")

		var times []shutdown.Times
		m, stop := start(t, w, l, func(c *shutdown.Config) {
			c.TimesFile, c.OnTimes = path, func(t shutdown.Times) { times = append(times, t) }
		})
		require.True(t, m.GoingDown())
		time.Sleep(time.Minute)
		require.Contains(t, w.take(), "10s kill critical 5")
		require.NoError(t, stop())
		require.Len(t, times, 2)
		require.WithinDuration(t, began, times[1].Start, 0)
		require.Equal(t, 13*time.Second, times[1].End.Sub(times[1].Start))
	})
}

func TestMissingLoginIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := &testNode{}, &login{connectErr: errors.New("no bus")}
		m, stop := start(t, w, l, nil)
		time.Sleep(time.Hour)
		require.NoError(t, m.Admit(pod("p", 0, 0), nil))
		l.disconnect(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, 1, l.heldLocks())
		require.NoError(t, stop())
		require.Zero(t, l.heldLocks(), "a stopped agent holds no lock")
		require.ErrorIs(t, m.Run(t.Context()), shutdown.ErrAlreadyRun)
	})
}

// A group without a period has a second for its pods, and a second for their volumes.
func TestZeroPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := &testNode{pods: []*v1.Pod{pod("a", 0, 60)}}, &login{}
		_, stop := start(t, w, l, func(c *shutdown.Config) {
			c.Periods = []shutdown.Period{{Priority: 0}}
			c.Unmounted = func(ctx context.Context, _ []*v1.Pod) error {
				require.NoError(t, ctx.Err())
				<-ctx.Done()
				w.record("unmount stopped")
				return ctx.Err()
			}
		})
		l.signal(true)
		time.Sleep(time.Minute)
		events := w.take()
		require.Contains(t, events, "0s kill a 0")
		require.Contains(t, events, "1s unmount stopped")
		require.NoError(t, stop())
	})
}

// A panic of the Login is like a lost connection.
func TestLoginPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &panickingLogin{login: &login{}}
		m, stop := start(t, &testNode{}, l.login, func(c *shutdown.Config) { c.Login = l })
		require.False(t, m.GoingDown())
		time.Sleep(time.Minute)
		require.Equal(t, 1, l.heldLocks())
		require.NoError(t, stop())
	})
}

// panickingLogin panics in the first Connect.
type panickingLogin struct {
	*login
	panicked bool
}

func (l *panickingLogin) Connect(ctx context.Context, delay time.Duration) (shutdown.Session, error) {
	if !l.panicked {
		l.panicked = true
		panic("no bus")
	}
	return l.login.Connect(ctx, delay)
}

func TestKillPanicsOrHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := &testNode{pods: []*v1.Pod{pod("bad", 0, 60), pod("hangs", 0, 60), pod("critical", 2_000_000_000, 60)}}, &login{}
		release := make(chan struct{})
		_, stop := start(t, w, l, func(c *shutdown.Config) {
			c.Kill = func(ctx context.Context, p *v1.Pod, seconds int64) error {
				switch p.Name {
				case "bad":
					panic("bad")
				case "hangs":
					<-release
				}
				return w.kill(ctx, p, seconds)
			}
		})
		l.signal(true)
		time.Sleep(time.Minute)
		require.Contains(t, w.take(), "10s kill critical 5")
		require.EqualError(t, stop(), "shutdown: still running after the shutdown timeout (10s): Kill")
		close(release)
	})
}

// A callback or a call of the Login that does not return is named after ShutdownTimeout, and does
// not keep the lock.
func TestRunIsBoundedByShutdownTimeout(t *testing.T) {
	for _, c := range []struct {
		want   string
		change func(c *shutdown.Config, hang func())
	}{
		{"Pods, stopping pods", func(c *shutdown.Config, hang func()) { c.Pods = func() []*v1.Pod { hang(); return nil } }},
		{"OnTimes, stopping pods", func(c *shutdown.Config, hang func()) { c.OnTimes = func(shutdown.Times) { hang() } }},
		{"Login, OnChange", func(c *shutdown.Config, hang func()) { c.OnChange = func(bool) { hang() } }},
		{"Login", func(c *shutdown.Config, hang func()) { c.Login = &hangingLogin{c.Login.(*login), hang} }},
		{"releasing the lock", func(c *shutdown.Config, hang func()) { c.Login.(*login).closing = hang }},
	} {
		t.Run(c.want, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, l := twoPods(-1), &login{}
				release := make(chan struct{})
				defer close(release)
				_, stop := start(t, w, l, func(cfg *shutdown.Config) { c.change(cfg, func() { <-release }) })
				l.signals <- true
				time.Sleep(time.Second)
				begun := time.Now()
				require.EqualError(t, stop(), "shutdown: still running after the shutdown timeout (10s): "+c.want)
				require.Equal(t, 10*time.Second, time.Since(begun))
				require.Zero(t, l.heldLocks())
			})
		})
	}
}

// hangingLogin hangs in GoingDown.
type hangingLogin struct {
	*login
	hang func()
}

func (l *hangingLogin) Connect(ctx context.Context, delay time.Duration) (shutdown.Session, error) {
	s, err := l.login.Connect(ctx, delay)
	return hangingSession{s, l}, err
}

type hangingSession struct {
	shutdown.Session
	l *hangingLogin
}

func (s hangingSession) GoingDown(context.Context) (bool, error) { s.l.hang(); return true, nil }

// The volumes of a group have the rest of its period, so that all groups fit into the delay.
func TestVolumesShareThePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := twoPods(4*time.Second), &login{}
		start(t, w, l, func(c *shutdown.Config) {
			c.Unmounted = func(ctx context.Context, _ []*v1.Pod) error { <-ctx.Done(); return ctx.Err() }
		})
		l.signal(true)
		time.Sleep(time.Minute)
		require.Contains(t, w.take(), "10s kill critical 5")
		require.Zero(t, l.heldLocks())
	})
}

func TestNewErrors(t *testing.T) {
	good := shutdown.Config{
		Periods: shutdown.Periods(time.Second, 0), Login: &login{}, Pods: func() []*v1.Pod { return nil },
		Kill: func(context.Context, *v1.Pod, int64) error { return nil },
	}
	_, err := shutdown.New(good)
	require.NoError(t, err)
	for want, change := range map[string]func(*shutdown.Config){
		"Config.Login is required":           func(c *shutdown.Config) { c.Login = nil },
		"Config.Pods is required":            func(c *shutdown.Config) { c.Pods = nil },
		"Config.Kill is required":            func(c *shutdown.Config) { c.Kill = nil },
		"Config.Periods is required":         func(c *shutdown.Config) { c.Periods = nil },
		"Config.Periods[0].Grace":            func(c *shutdown.Config) { c.Periods = []shutdown.Period{{0, -1}} },
		"Config.Periods[1].Priority":         func(c *shutdown.Config) { c.Periods = []shutdown.Period{{0, 1}, {0, 2}} },
		"Config.ShutdownTimeout is negative": func(c *shutdown.Config) { c.ShutdownTimeout = -1 },
	} {
		cfg := good
		change(&cfg)
		_, err := shutdown.New(cfg)
		require.ErrorContains(t, err, want)
	}
}
