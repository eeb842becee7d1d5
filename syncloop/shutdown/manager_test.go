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
	mu      sync.Mutex
	down    bool
	absent  error
	hangs   bool // Connect hangs
	short   bool // the delay is too short
	locks   int
	signals chan bool
	world   *world
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
	if l.absent != nil {
		return nil, l.absent
	}
	l.world.say("connect %v", delay)
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
	if l.absent == nil {
		l.signals <- down
	}
}

// vanish closes the connection; later ones fail with err until it is nil.
func (l *login) vanish(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.absent = err
	if l.signals != nil {
		close(l.signals)
		l.signals = nil
	}
}

func (l *login) held() int {
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
	})), nil
}

type closer func()

func (c closer) Close() error { c(); return nil }

// world is the node: pods with the durations of their ends, -1 for pods that never end.
type world struct {
	mu    sync.Mutex
	begun time.Time
	said  []string
	pods  []*v1.Pod
	takes map[string]time.Duration
}

// twoPods returns a world with a critical pod and one, low, whose end takes a while.
func twoPods(low time.Duration) *world {
	return &world{
		pods:  []*v1.Pod{pod("critical", 2_000_000_000, 60), pod("low", 0, 60)},
		takes: map[string]time.Duration{"low": low},
	}
}

// say records an event with the seconds since the start.
func (w *world) say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, fmt.Sprintf("%v ", time.Since(w.begun).Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

func (w *world) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	said := w.said
	w.said = nil
	return said
}

func (w *world) kill(ctx context.Context, p *v1.Pod, seconds int64) error {
	w.say("kill %s %d", p.Name, seconds)
	takes := w.takes[p.Name]
	if takes < 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	time.Sleep(takes)
	w.say("ended %s", p.Name)
	return nil
}

// start runs a Manager until the end of the test or a call of the returned function.
func start(t *testing.T, w *world, l *login, change func(*shutdown.Config)) (*shutdown.Manager, func() error) {
	w.begun, l.world = time.Now(), w
	cfg := shutdown.Config{
		Periods:  shutdown.Periods(15*time.Second, 5*time.Second),
		Login:    l,
		Pods:     func() []*v1.Pod { return w.pods },
		Kill:     w.kill,
		OnChange: func(down bool) { w.say("going down %v", down) },
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
func TestGroupsEndInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			pods:  []*v1.Pod{pod("critical", 2_000_000_000, 60), pod("deaf", 0, 60), pod("quick", 0, 3)},
			takes: map[string]time.Duration{"deaf": -1, "quick": 2 * time.Second, "critical": time.Second},
		}
		l := &login{}
		m, _ := start(t, w, l, func(c *shutdown.Config) {
			c.Unmounted = func(_ context.Context, pods []*v1.Pod) error {
				time.Sleep(time.Second)
				w.say("unmounted %d", len(pods))
				return nil
			}
			c.Flush = func(context.Context) error { w.say("flush, locks %d", l.held()); return nil }
		})
		require.NoError(t, m.Admit(pod("before", 0, 0), nil))
		require.Equal(t, 1, l.held())
		l.signal(true)
		synctest.Wait()
		var why *syncloop.Rejection
		require.ErrorAs(t, m.Admit(pod("late", 0, 0), nil), &why)
		require.Equal(t, syncloop.Rejection{Reason: "NodeShutdown", Message: "Pod was rejected as the node is shutting down."}, *why)
		time.Sleep(time.Minute)
		said := w.take()
		require.Equal(t, []string{"0s connect 15s", "0s going down true"}, said[:2])
		require.ElementsMatch(t, []string{"0s kill deaf 10", "0s kill quick 3"}, said[2:4])
		require.Equal(t, []string{
			"2s ended quick", "11s unmounted 2", "11s kill critical 5", "12s ended critical", "13s unmounted 1", "13s flush, locks 1",
		}, said[4:])
		require.Zero(t, l.held(), "the machine may go on")
		require.True(t, m.GoingDown(), "until it is off")
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
		require.Equal(t, 1, l.held())
		times, err := shutdown.ReadTimes(path)
		require.NoError(t, err)
		require.Equal(t, 2*time.Second, times.End.Sub(times.Start))

		l.signal(true)
		time.Sleep(time.Minute)
		require.Contains(t, w.take(), "1m6s kill critical 5")
		require.Zero(t, l.held())
	})
}

func TestConnectionLostInTheMiddle(t *testing.T) {
	for _, c := range []struct {
		name       string
		downAfter  bool
		wantEnding string
		locks      int
	}{{"the shutdown goes on", true, "4s kill critical 5", 0}, {"it was cancelled meanwhile", false, "3s going down false", 1}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := twoPods(4 * time.Second)
				l := &login{}
				m, _ := start(t, w, l, nil)
				l.signal(true)
				time.Sleep(time.Second)
				l.vanish(errors.New("no bus"))
				time.Sleep(1500 * time.Millisecond)
				require.Equal(t, 1, l.held(), "the lock outlives the connection")
				l.signal(c.downAfter)
				l.vanish(nil)
				time.Sleep(time.Minute)
				require.Contains(t, w.take(), c.wantEnding)
				require.Equal(t, c.downAfter, m.GoingDown())
				require.Equal(t, c.locks, l.held())
			})
		})
	}
}

func TestLockIsLetGoWithoutAConnection(t *testing.T) {
	for name, hangs := range map[string]bool{"Connect fails": false, "Connect hangs": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, l := &world{pods: []*v1.Pod{pod("low", 0, 60)}, takes: map[string]time.Duration{"low": 4 * time.Second}}, &login{}
				start(t, w, l, nil)
				l.signal(true)
				time.Sleep(time.Second)
				l.mu.Lock()
				l.hangs = hangs
				l.mu.Unlock()
				l.vanish(errors.New("no bus"))
				time.Sleep(2500 * time.Millisecond)
				require.Equal(t, 1, l.held())
				time.Sleep(time.Second)
				require.Zero(t, l.held(), "the pods have ended")
			})
		})
	}
}

func TestLoginThatWaitsForTooShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := &world{}, &login{short: true}
		start(t, w, l, nil)
		time.Sleep(150 * time.Second)
		require.Equal(t, []string{"0s connect 15s", "1m0s connect 15s", "2m0s connect 15s"}, w.take())
	})
}

func TestRestartInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := twoPods(-1)
		l := &login{}
		path := filepath.Join(t.TempDir(), shutdown.TimesFile)
		began := time.Now()
		_, stop := start(t, w, l, func(c *shutdown.Config) { c.TimesFile = path })
		l.signal(true)
		time.Sleep(3 * time.Second)
		require.ErrorIs(t, stop(), context.Canceled)
		require.NotContains(t, w.take(), "3s kill critical 5", "the end of the agent ends no pods")

		var times []shutdown.Times
		m, stop := start(t, w, l, func(c *shutdown.Config) {
			c.TimesFile, c.OnTimes = path, func(t shutdown.Times) { times = append(times, t) }
		})
		require.True(t, m.GoingDown())
		time.Sleep(time.Minute)
		require.Contains(t, w.take(), "10s kill critical 5")
		require.ErrorIs(t, stop(), context.Canceled)
		require.Len(t, times, 2)
		require.WithinDuration(t, began, times[1].Start, 0)
		require.Equal(t, 13*time.Second, times[1].End.Sub(times[1].Start))
	})
}

func TestLoginThatIsNotThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := &world{}, &login{absent: errors.New("no bus")}
		m, stop := start(t, w, l, nil)
		time.Sleep(time.Hour)
		require.NoError(t, m.Admit(pod("p", 0, 0), nil))
		l.vanish(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, 1, l.held())
		require.ErrorIs(t, stop(), context.Canceled)
		require.Zero(t, l.held(), "an agent that ends delays nothing")
		require.ErrorIs(t, m.Run(t.Context()), shutdown.ErrAlreadyRun)
	})
}

func TestKillThatPanicsOrHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := &world{pods: []*v1.Pod{pod("bad", 0, 60), pod("hangs", 0, 60), pod("critical", 2_000_000_000, 60)}}, &login{}
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
		require.ErrorContains(t, stop(), "still running: Kill")
		close(release)
	})
}

func TestNewRefuses(t *testing.T) {
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
