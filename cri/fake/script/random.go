package script

import (
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
)

// RandomConfig bounds what Random makes.
type RandomConfig struct {
	// Rules is how many rules there are. Default 10.
	Rules int
	// Pods are names, or namespace/name, of pods that rules are about, and
	// Containers names of containers. Default: rules are about all.
	Pods, Containers []string
	// Calls are the calls that rules are about. Default: all of Calls, of which
	// most code makes few.
	Calls []string
	// MaxDelay bounds each delay. Default 30 seconds.
	MaxDelay time.Duration
	// MaxCount bounds the counts at which rules fire, so that faults end.
	// Default 20. Rules of chance, which do not end, fire at 10% at most.
	MaxCount int
	// Events, Runs and Restarts allow rules about events, about runs, and
	// restarts, of which none loses state. Default false.
	Events, Runs, Restarts bool
}

// Random makes a script that is a function of seed and cfg. No rule hangs for
// longer than MaxDelay, so all calls end. Print the script of a run that fails: it
// replays the run, and the seed in it the chances.
func Random(seed uint64, cfg RandomConfig) Script {
	cfg.setDefaults()
	m := &maker{Rand: rand.New(rand.NewPCG(mix(seed), 0)), cfg: cfg}
	s := Script{Seed: seed}
	for range cfg.Rules {
		s.Rules = append(s.Rules, m.rule())
	}
	return s
}

func (c *RandomConfig) setDefaults() {
	if c.Rules <= 0 {
		c.Rules = 10
	}
	if len(c.Calls) == 0 {
		c.Calls = Calls()
	}
	if c.MaxDelay <= 0 {
		c.MaxDelay = 30 * time.Second
	}
	if c.MaxCount <= 0 {
		c.MaxCount = 20
	}
}

// maker makes random rules.
type maker struct {
	*rand.Rand
	cfg RandomConfig
}

func (m *maker) rule() Rule {
	makers := []func() Rule{m.latency, m.fault, m.fault, m.lostReply}
	if m.cfg.Events {
		makers = append(makers, m.event)
	}
	if m.cfg.Runs {
		makers = append(makers, m.run)
	}
	if m.cfg.Restarts {
		makers = append(makers, m.restart)
	}
	return makers[m.IntN(len(makers))]()
}

func (m *maker) latency() Rule {
	most := m.delay()
	return m.narrowed(On(m.call(), TakeBetween(most/10, most)))
}

func (m *maker) fault() Rule {
	return m.counted(m.narrowed(On(m.call(), HangFor(m.delay()), Fail(m.code(), "random fault"))))
}

func (m *maker) lostReply() Rule {
	return m.counted(m.narrowed(On(m.call(), Do(), HangFor(m.delay()), Fail(m.code(), "random loss of the reply"))))
}

func (m *maker) restart() Rule {
	return On(AnyCall, Restart(), Fail(codes.Unavailable, "random restart")).Nth(1 + m.IntN(10*m.cfg.MaxCount))
}

func (m *maker) event() Rule {
	steps := []Step{Drop(), Twice(), Swap(), Late(m.delay()), Fail(codes.Unavailable, "random end of the stream")}
	step := steps[m.IntN(len(steps))]
	if step.Kind == KindFail {
		return On(AnyEvent, step).Nth(1 + m.IntN(10*m.cfg.MaxCount))
	}
	subjects := []string{AnyEvent, EventCreated, EventStarted, EventStopped, EventDeleted}
	return m.counted(m.narrowed(On(subjects[m.IntN(len(subjects))], step)))
}

func (m *maker) run() Rule {
	exits := []Step{Exit(0, "", ""), Exit(1, "", ""), Exit(137, reasonOOMKilled, "")}
	steps := [][]Step{
		{Take(m.delay()), exits[m.IntN(len(exits))]},
		{UntilStopped(), Take(m.delay()), Exit(0, "", "")},
		{Hang()},
		{Fail(codes.Unknown, "random failure to start")},
	}
	return m.counted(m.narrowed(On(Run, steps[m.IntN(len(steps))]...)))
}

func (m *maker) call() string { return m.cfg.Calls[m.IntN(len(m.cfg.Calls))] }

// delay is whole milliseconds, for scripts that are easy to read.
func (m *maker) delay() time.Duration {
	return max(time.Millisecond, time.Duration(m.Int64N(int64(m.cfg.MaxDelay)+1)).Truncate(time.Millisecond))
}

func (m *maker) code() codes.Code {
	all := []codes.Code{codes.Unknown, codes.Unavailable, codes.DeadlineExceeded, codes.Internal, codes.ResourceExhausted}
	return all[m.IntN(len(all))]
}

// counted bounds when a rule fires.
func (m *maker) counted(r Rule) Rule {
	first := 1 + m.IntN(m.cfg.MaxCount)
	switch m.IntN(3) {
	case 0:
		return r.Nth(first)
	case 1:
		return r.Between(first, first+m.IntN(m.cfg.MaxCount-first+1))
	default:
		return r.Chance(float64(1 + m.IntN(10)))
	}
}

// narrowed makes a rule one about a pod or a container, where its subject has any.
func (m *maker) narrowed(r Rule) Rule {
	if m.IntN(2) == 0 || (subjectGroup(r.Subject)&calls != 0 && !aboutContainer(r.Subject)) {
		return r
	}
	if len(m.cfg.Pods) > 0 {
		r.Of = OfPod(m.cfg.Pods[m.IntN(len(m.cfg.Pods))])
	}
	if len(m.cfg.Containers) > 0 && m.IntN(2) == 0 {
		r.Of.Kind, r.Of.Container = ContainerKind, m.cfg.Containers[m.IntN(len(m.cfg.Containers))]
	}
	return r
}

func aboutContainer(call string) bool {
	return slices.Contains([]string{
		"CreateContainer", "StartContainer", "StopContainer", "RemoveContainer", "ContainerStatus",
		"UpdateContainerResources", "ReopenContainerLog", callExecSync, "ContainerStats",
	}, call)
}

// Reduce takes rules away, one after the other, as long as fails says that the
// rest still fails, and returns what is left. A chance depends on its own rule only,
// so the others keep theirs. fails is called for n rules up to n*n times.
func Reduce(s Script, fails func(Script) bool) Script {
	for i := 0; i < len(s.Rules); {
		smaller := Script{Seed: s.Seed, Rules: slices.Delete(slices.Clone(s.Rules), i, i+1)}
		if fails(smaller) {
			s, i = smaller, 0
			continue
		}
		i++
	}
	return s
}
