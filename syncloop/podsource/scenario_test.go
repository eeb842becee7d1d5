package podsource

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/syncloop"
)

var rewrite = flag.Bool("rewrite", false, "write what happens into the scenarios")

// TestScenarios plays testdata/*.txt: S1 to S10 of the lifecycle contract, by
// their ids, and others. A paragraph holds commands, one per line, and after a line
// "----" what happens. All commands of a paragraph are given at one moment.
//
//	start file [dropbroken] [nowatch]   run a FileSource on an empty folder
//	start http                          run an HTTPSource
//	set SOURCE POD; POD                 hand a set to the Merger
//	write FILE POD                      write a manifest, whole and closed
//	begin FILE POD                      write one and keep it open
//	write FILE text=TEXT                write something else
//	remove FILE                         delete it
//	watch lost                          the watch on the folder ends
//	serve POD; POD                      what the web server answers from now on:
//	serve text=TEXT | status=CODE       pods, a text, an error
//	advance DURATION                    let time pass
//	show ready | problems               say which sources are waited for, what is wrong
//
// A POD is a name and fields: uid, image, phase, secret, account and the annotations
// seen, source, mirror and note as key=value, and deleting.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(string(data), "# "), "the first line says what it shows")
			got := playScenario(t, string(data))
			if *rewrite {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
				return
			}
			require.Equal(t, string(data), got)
		})
	}
}

const separator = "----\n"

// playScenario returns a scenario with what happened.
func playScenario(t *testing.T, script string) string {
	var out strings.Builder
	synctest.Test(t, func(t *testing.T) {
		s := newScenario(t)
		for i, paragraph := range strings.Split(strings.TrimRight(script, "\n"), "\n\n") {
			commands, _, _ := strings.Cut(paragraph+"\n", separator)
			if i > 0 {
				out.WriteByte('\n')
			}
			out.WriteString(commands)
			if strings.HasPrefix(commands, "#") {
				continue
			}
			for line := range strings.Lines(commands) {
				s.do(strings.TrimSpace(line))
			}
			out.WriteString(separator + s.take())
		}
		s.stop()
		for given, then := range s.handed {
			require.Equal(t, then, given, "what was handed out never changes")
		}
	})
	return out.String()
}

// scenario is what commands are given to: a Merger, the sources that feed it, and a
// loop that asks for changes.
type scenario struct {
	t      *testing.T
	began  time.Time
	merger *follower
	dir    string
	file   *FileSource
	web    *HTTPSource
	stop   func()
	ctx    context.Context
	hint   func([]Hint)
	lost   func()

	// loop is held while commands are given, and hints are what the watch will see
	// of them: so they happen at one moment.
	loop  sync.Mutex
	hints []Hint

	mu    sync.Mutex
	lines []string
	reply string
	uids  map[types.UID]string
	// handed are the pods that were read, with copies made then.
	handed map[*v1.Pod]*v1.Pod
}

func newScenario(t *testing.T) *scenario {
	s := &scenario{
		t: t, began: time.Now(), dir: t.TempDir(), uids: map[types.UID]string{}, handed: map[*v1.Pod]*v1.Pod{},
		hint: func([]Hint) {}, lost: func() {},
	}
	s.merger = newMerger(t, MergerConfig{Event: func(ref v1.ObjectReference, eventtype, reason, message string) {
		s.print("event %s %s on %s: %s", eventtype, reason, ref.Name, message)
	}})
	ctx, cancel := context.WithCancel(t.Context())
	s.ctx = ctx
	var running sync.WaitGroup
	s.loop.Lock()
	s.stop = func() { cancel(); s.loop.Unlock(); running.Wait() }
	running.Go(func() {
		require.NoError(t, s.merger.Run(ctx, func(e syncloop.Event) { s.handle(e.Source) }))
	})
	return s
}

// handle does what a loop does.
func (s *scenario) handle(source string) {
	s.loop.Lock()
	defer s.loop.Unlock()
	for _, c := range s.merger.Changes(source) {
		text := fmt.Sprintf("%s: %s", source, c.Op)
		for _, pod := range c.Pods {
			require.Equal(s.t, source, pod.Annotations[podfacts.ConfigSource])
			text += " " + s.describe(pod)
			s.handed[pod] = pod.DeepCopy()
		}
		s.print("%s", text)
	}
	s.merger.Handled(source)
}

func spoil(pod *v1.Pod) {
	pod.Spec.Containers = nil
	pod.Annotations, pod.Name, pod.UID = nil, "spoiled", "spoiled"
}

func (s *scenario) describe(pod *v1.Pod) string {
	seen, err := time.Parse(time.RFC3339Nano, pod.Annotations[podfacts.ConfigSeen])
	require.NoError(s.t, err)
	text := fmt.Sprintf("%s(%s", pod.Name, s.alias(pod.UID))
	for _, c := range pod.Spec.Containers {
		text += " " + c.Image
	}
	if pod.Status.Phase != "" && pod.Status.Phase != v1.PodPending {
		text += " " + string(pod.Status.Phase)
	}
	if pod.DeletionTimestamp != nil {
		text += " deleting"
	}
	return fmt.Sprintf("%s seen %s)", text, seen.Sub(s.began))
}

// alias shortens UIDs that were made from a manifest.
func (s *scenario) alias(uid types.UID) string {
	if len(uid) < 32 {
		return string(uid)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.uids[uid] == "" {
		s.uids[uid] = fmt.Sprintf("uid#%d", len(s.uids)+1)
	}
	return s.uids[uid]
}

func (s *scenario) print(format string, args ...any) {
	line := strings.ReplaceAll(fmt.Sprintf(format, args...), s.dir, "DIR")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, fmt.Sprintf("%s %s\n", time.Since(s.began), line))
}

func (s *scenario) take() string {
	s.settle(0)
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := s.lines
	s.lines = nil
	return strings.Join(lines, "")
}

// settle lets everything happen that follows from the commands so far.
func (s *scenario) settle(d time.Duration) {
	if len(s.hints) > 0 {
		s.hint(s.hints)
	}
	s.hints = nil
	s.loop.Unlock()
	time.Sleep(d)
	synctest.Wait()
	s.loop.Lock()
}

// do gives one command.
func (s *scenario) do(line string) {
	verb, rest, _ := strings.Cut(line, " ")
	first, more, _ := strings.Cut(rest, " ")
	switch verb {
	case "start":
		s.start(first, strings.Fields(more))
	case "set":
		pods := podsOf(s.t, more)
		for _, pod := range pods {
			pod.Namespace = "default"
		}
		if err := s.merger.Set(first, pods); !errors.Is(err, ErrNoIdentity) {
			require.NoError(s.t, err)
		}
		for _, pod := range pods {
			spoil(pod)
		}
	case "write", "begin":
		s.write(first, content(s.t, more), map[string]FileState{"write": Written, "begin": Writing}[verb])
	case "remove":
		require.NoError(s.t, os.Remove(filepath.Join(s.dir, first)))
		s.hints = append(s.hints, Hint{Path: filepath.Join(s.dir, first), State: Deleted})
	case "watch":
		s.hint = func([]Hint) {}
		s.lost()
	case "serve":
		s.mu.Lock()
		s.reply = rest
		s.mu.Unlock()
	case "advance":
		d, err := time.ParseDuration(first)
		require.NoError(s.t, err)
		s.settle(d)
	case "show":
		s.settle(0)
		s.show(first)
	default:
		require.Fail(s.t, "unknown command", line)
	}
}

func (s *scenario) show(what string) {
	if what == "ready" {
		s.print("ready: %t, waits for %v", s.merger.Ready(), s.merger.Waiting())
		return
	}
	var problems []Problem
	if s.file != nil {
		problems = append(problems, s.file.Problems()...)
	}
	if s.web != nil {
		problems = append(problems, s.web.Problems()...)
	}
	s.print("%d problems", len(problems))
	for _, p := range problems {
		s.problem(p)
	}
}

func (s *scenario) problem(p Problem) {
	kept := ""
	if p.KeptLastGood {
		kept = " (the last good version stays)"
	}
	s.print("problem of %s since %s: %s%s", p.Path, p.Since.Sub(s.began), p.Message, kept)
}

// start runs a source.
func (s *scenario) start(kind string, options []string) {
	var src syncloop.EventSource
	var err error
	switch kind {
	case "file":
		s.file, err = NewFileSource(FileConfig{
			Path: s.dir, Merger: s.merger.Merger, Decoder: Decoder{NodeName: "n"}, OnProblem: s.problem,
			DropBroken: slices.Contains(options, "dropbroken"), Watch: s.watch(slices.Contains(options, "nowatch")),
		})
		src = s.file
	case "http":
		s.web, err = NewHTTPSource(HTTPConfig{
			URL: "http://server/pods", Merger: s.merger.Merger, Decoder: Decoder{NodeName: "n"}, OnProblem: s.problem,
			Client: &http.Client{Transport: webserver(s.serve)},
		})
		src = s.web
	}
	require.NoError(s.t, err)
	done := make(chan struct{})
	stop := s.stop
	s.stop = func() { stop(); <-done }
	go func() {
		defer close(done)
		require.NoError(s.t, src.Run(s.ctx, func(syncloop.Event) {}))
	}()
	s.settle(0)
}

// watch is a watch that sees what the scenario does, until it is lost.
func (s *scenario) watch(none bool) func(context.Context, string, func(Hint)) error {
	return func(ctx context.Context, _ string, _ func(Hint)) error {
		if none {
			return errors.ErrUnsupported
		}
		ctx, s.lost = context.WithCancel(ctx)
		s.hint = s.hintAll
		<-ctx.Done()
		none = true
		return errors.New("lost")
	}
}

// hintAll tells the source of several hints in one moment: it looks when it has all.
func (s *scenario) hintAll(hints []Hint) {
	last := len(hints) - 1
	for _, h := range hints[:last] {
		s.file.hints.Note(h)
	}
	s.file.hints.Add(hints[last])
}

func (s *scenario) write(name, text string, how FileState) {
	path := filepath.Join(s.dir, name)
	require.NoError(s.t, os.WriteFile(path, []byte(text), 0o644))
	// The files must live in the time of the bubble.
	require.NoError(s.t, os.Chtimes(path, time.Now(), time.Now()))
	s.hints = append(s.hints, Hint{Path: path, State: how})
}

// serve answers a request.
func (s *scenario) serve(*http.Request) (*http.Response, error) {
	s.mu.Lock()
	reply := s.reply
	s.mu.Unlock()
	if code, ok := strings.CutPrefix(reply, "status="); ok {
		var status int
		_, err := fmt.Sscan(code, &status)
		require.NoError(s.t, err)
		return answerOf(status, "")
	}
	if reply == "nothing" {
		return answerOf(200, "")
	}
	if text, ok := strings.CutPrefix(reply, "text="); ok {
		return answerOf(200, text)
	}
	return answerOf(200, listOf(podsOf(s.t, reply)))
}
