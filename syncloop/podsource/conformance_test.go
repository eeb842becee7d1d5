package podsource_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/eventsourcetest"
	"github.com/podwright/podwright/syncloop/podsource"
)

const source = "mine"

// conforms runs the suite with a Merger and the feed that build adds to the subject.
func conforms(t *testing.T, build func(t testing.TB, m *podsource.Merger, sub *eventsourcetest.PodsSubject) error) {
	eventsourcetest.RunPods(t, func(t testing.TB) eventsourcetest.PodsSubject { return subject(t, build) })
}

func subject(t testing.TB, build func(t testing.TB, m *podsource.Merger, sub *eventsourcetest.PodsSubject) error) eventsourcetest.PodsSubject {
	m, err := podsource.NewMerger(podsource.MergerConfig{})
	require.NoError(t, err)
	sub := eventsourcetest.PodsSubject{Pods: m, Source: source, Ready: func() bool { return m.SourceReady(source) }}
	require.NoError(t, build(t, m, &sub))
	return sub
}

// newest returns a function that replaces the set in a channel, so that sending never blocks.
func newest(sets chan []*v1.Pod) func([]*v1.Pod) {
	var mu sync.Mutex
	return func(pods []*v1.Pod) {
		mu.Lock()
		defer mu.Unlock()
		select {
		case <-sets:
		default:
		}
		sets <- pods
	}
}

func TestFromChannelConforms(t *testing.T) {
	conforms(t, func(_ testing.TB, m *podsource.Merger, sub *eventsourcetest.PodsSubject) (err error) {
		sets := make(chan []*v1.Pod, 1)
		sub.Set, sub.End = newest(sets), func() { close(sets) }
		sub.Feed, err = podsource.FromChannel(m, source, sets)
		return err
	})
}

// A Saved conforms on the channel of its Merger, also with a set of an earlier run on the disk.
func TestSavedConforms(t *testing.T) {
	for name, earlier := range map[string][]*v1.Pod{"without a saved set": nil, "with a saved set": {savedPod}} {
		t.Run(name, func(t *testing.T) {
			conforms(t, func(t testing.TB, m *podsource.Merger, sub *eventsourcetest.PodsSubject) error {
				dir := t.TempDir()
				if earlier != nil {
					require.NoError(t, saveSet(dir, earlier))
				}
				saved, err := newSaved(m, dir)
				if err != nil {
					return err
				}
				sets := make(chan []*v1.Pod, 1)
				channel, err := podsource.FromChannel(m, source, sets)
				sub.Pods, sub.Set, sub.Eager = saved, newest(sets), earlier != nil
				sub.Ready = func() bool { return saved.SourceReady(source) }
				sub.Feed = syncloop.EventSourceFunc(func(ctx context.Context, emit func(syncloop.Event)) error {
					return run.All(ctx,
						func(ctx context.Context) error { return saved.Run(ctx, emit) },
						func(ctx context.Context) error { return channel.Run(ctx, emit) })
				})
				return err
			})
		})
	}
}

var savedPod = &v1.Pod{
	ObjectMeta: metav1.ObjectMeta{Name: "saved", Namespace: "ns", UID: "saved"},
	Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "x"}}},
}

func newSaved(inner syncloop.PodSource, dir string) (*podsource.Saved, error) {
	return podsource.NewSaved(podsource.SavedConfig{Inner: inner, Dir: dir, Sources: []string{source}})
}

// saveSet saves a set, as an earlier agent does.
func saveSet(dir string, pods []*v1.Pod) error {
	m, err := podsource.NewMerger(podsource.MergerConfig{})
	if err != nil {
		return err
	}
	saved, err := newSaved(m, dir)
	if err != nil {
		return err
	}
	err = m.Set(source, pods, nil)
	saved.Pods(source)
	return errors.Join(err, saved.Err())
}

func setsOf(sets <-chan []*v1.Pod, errs <-chan error) func(context.Context) iter.Seq2[[]*v1.Pod, error] {
	return func(ctx context.Context) iter.Seq2[[]*v1.Pod, error] {
		return func(yield func([]*v1.Pod, error) bool) {
			for {
				var pods []*v1.Pod
				var err error
				var open bool
				select {
				case <-ctx.Done():
					return
				case err = <-errs:
				case pods, open = <-sets:
					if !open {
						return
					}
				}
				if !yield(pods, err) {
					return
				}
			}
		}
	}
}

func TestFromSeqConforms(t *testing.T) {
	conforms(t, func(_ testing.TB, m *podsource.Merger, sub *eventsourcetest.PodsSubject) (err error) {
		sets, errs := make(chan []*v1.Pod, 1), make(chan error, 1)
		sub.Set, sub.End, sub.Fail = newest(sets), func() { close(sets) }, func() { errs <- io.ErrUnexpectedEOF }
		sub.Feed, err = podsource.FromSeq(m, source, setsOf(sets, errs))
		return err
	})
}

type server struct {
	mu   sync.Mutex
	body []byte
}

func (s *server) set(pods []*v1.Pod) {
	if pods == nil {
		pods = []*v1.Pod{}
	}
	body, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "PodList", "items": pods})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.body = body; err != nil {
		s.body = nil
	}
}

func (s *server) RoundTrip(*http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.body == nil {
		return nil, io.ErrUnexpectedEOF
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(string(s.body)))}, nil
}

func TestHTTPSourceConforms(t *testing.T) {
	conforms(t, func(_ testing.TB, m *podsource.Merger, sub *eventsourcetest.PodsSubject) (err error) {
		s := &server{}
		sub.Set = s.set
		sub.Feed, err = podsource.NewHTTPSource(podsource.HTTPConfig{
			URL: "http://server/pods", Merger: m, Source: source,
			Decoder: podsource.Decoder{NodeName: "n"}, Client: &http.Client{Transport: s},
		})
		return err
	})
}

func manifestFolder(t testing.TB, dir string) func([]*v1.Pod) {
	var mu sync.Mutex
	return func(pods []*v1.Pod) {
		mu.Lock()
		defer mu.Unlock()
		wanted := map[string]bool{}
		for i, pod := range pods {
			name := fmt.Sprintf("%02d-%s", i, pod.Name)
			wanted[name] = true
			manifest, err := json.Marshal(pod)
			require.NoError(t, err)
			aside := filepath.Join(dir, ".new")
			require.NoError(t, os.WriteFile(aside, manifest, 0o644))
			require.NoError(t, os.Rename(aside, filepath.Join(dir, name)))
		}
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, e := range entries {
			if !wanted[e.Name()] {
				require.NoError(t, os.Remove(filepath.Join(dir, e.Name())))
			}
		}
	}
}

// FileSource conforms in bubbles, without a watch, and in real time with inotify.
func TestFileSourceConforms(t *testing.T) {
	files := func(edit func(*podsource.FileConfig)) func(testing.TB, *podsource.Merger, *eventsourcetest.PodsSubject) error {
		return func(t testing.TB, m *podsource.Merger, sub *eventsourcetest.PodsSubject) (err error) {
			cfg := podsource.FileConfig{Path: t.TempDir(), Merger: m, Source: source, Decoder: podsource.Decoder{NodeName: "n"}}
			edit(&cfg)
			sub.Set, sub.Eager = manifestFolder(t, cfg.Path), true
			sub.Feed, err = podsource.NewFileSource(cfg)
			return err
		}
	}
	conforms(t, files(func(cfg *podsource.FileConfig) { cfg.NoWatch = true }))
	t.Run("watched", func(t *testing.T) {
		if testing.Short() {
			t.Skip("takes seconds")
		}
		eventsourcetest.Run(t, eventsourcetest.Config{RealTime: true, New: func(t testing.TB) eventsourcetest.Subject {
			sub := subject(t, files(func(cfg *podsource.FileConfig) { cfg.Period = 300 * time.Millisecond }))
			return eventsourcetest.Subject{Source: sub.Feed}
		}})
	})
}
