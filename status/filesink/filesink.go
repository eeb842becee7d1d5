package filesink

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	iofs "io/fs"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/fs"
	"github.com/podwright/podwright/status"
)

// Config configures a Sink. Path is required.
type Config struct {
	// Path is the file, absolute, in a folder that exists.
	Path string
	// Logger receives what was wrong with a file that New has set aside. nil
	// discards.
	Logger *slog.Logger
}

// Sink is a status.Sink and an http.Handler. Use New. Its methods are safe for
// concurrent use.
type Sink struct {
	path string

	mu      sync.Mutex
	pods    map[key]*v1.Pod // what is in it is replaced, never changed
	given   map[key]*v1.Pod // what Put was called with last
	changes int64           // of pods, counted

	file    sync.Mutex // held while the file is written
	written int64      // as changes, of the file
}

type key struct{ namespace, name string }

func keyOf(pod *v1.Pod) key { return key{pod.Namespace, pod.Name} }

var (
	_ status.Sink  = (*Sink)(nil)
	_ http.Handler = (*Sink)(nil)
)

// New returns a Sink with the pods that the file has, and makes the file if it is
// not there.
func New(cfg Config) (*Sink, error) {
	f := fields.Of("filesink: Config")
	f.Absolute("Path", cfg.Path)
	if err := f.Err(); err != nil {
		return nil, err
	}
	s := &Sink{path: cfg.Path, pods: map[key]*v1.Pod{}, given: map[key]*v1.Pod{}}
	if err := s.load(cfg.Logger); err != nil {
		return nil, fmt.Errorf("filesink: %w", err)
	}
	s.changes++
	return s, s.write(s.changes)
}

var errCorrupt = errors.New("no list of pods")

// load reads the file, if there is one, and sets aside one that cannot be used.
func (s *Sink) load(log *slog.Logger) error {
	text, err := os.ReadFile(s.path)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = s.decode(text)
	}
	if !errors.Is(err, errCorrupt) {
		return err
	}
	if log != nil {
		log.Warn("the file of statuses cannot be used and is set aside", "path", s.path, "err", err)
	}
	clear(s.pods)
	return os.Rename(s.path, s.path+".corrupt")
}

func (s *Sink) decode(text []byte) error {
	var list v1.PodList
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("%w: %w", errCorrupt, err)
	}
	for i := range list.Items {
		pod := &list.Items[i]
		if pod.Name == "" || pod.UID == "" {
			return fmt.Errorf("%w: items[%d] has no name or no uid", errCorrupt, i)
		}
		s.pods[keyOf(pod)] = pod
	}
	return nil
}

// Put adds a pod or replaces what there is of it but for its status, which stays
// if the UID does. The pod may not be changed afterwards; to put the same one
// again costs nothing.
func (s *Sink) Put(pod *v1.Pod) error {
	return s.change(func() error {
		if s.given[keyOf(pod)] == pod {
			return nil
		}
		put := *pod
		if was := s.pods[keyOf(pod)]; was != nil && was.UID == pod.UID {
			put.Status = was.Status // else that of the pod itself
		}
		s.pods[keyOf(pod)], s.given[keyOf(pod)] = &put, pod
		s.changes++
		return nil
	})
}

// Remove removes a pod. It is no error that it, or its UID, is not there.
func (s *Sink) Remove(pod *v1.Pod) error {
	err := s.remove(status.Ref{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID})
	if errors.Is(err, status.ErrNotFound) || errors.Is(err, status.ErrConflict) {
		return nil
	}
	return err
}

// Prune removes the pods that are not wanted.
func (s *Sink) Prune(wanted func(types.UID) bool) error {
	return s.change(func() error {
		for k, pod := range s.pods {
			if !wanted(pod.UID) {
				delete(s.pods, k)
				delete(s.given, k)
				s.changes++
			}
		}
		return nil
	})
}

// Status returns the status of a pod, the zero status if there is none: what an
// agent last said of it before it started anew. It must not be changed.
func (s *Sink) Status(pod *v1.Pod) v1.PodStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was := s.pods[keyOf(pod)]; was != nil && was.UID == pod.UID {
		return was.Status
	}
	return v1.PodStatus{}
}

// Get implements status.Sink.
func (s *Sink) Get(_ context.Context, ref status.Ref) (*v1.Pod, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pod := s.pods[key{ref.Namespace, ref.Name}]; pod != nil {
		return pod, nil
	}
	return nil, fmt.Errorf("filesink: %s: %w", ref, status.ErrNotFound)
}

// Patch implements status.Sink.
func (s *Sink) Patch(_ context.Context, ref status.Ref, old, new *v1.PodStatus) (*v1.Pod, error) {
	var patched v1.Pod
	err := s.change(func() error {
		pod, err := s.find(ref)
		if err != nil {
			return err
		}
		patched = *pod
		patched.Status = *status.Apply(&pod.Status, old, new)
		s.pods[keyOf(pod)] = &patched
		s.changes++
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &patched, nil
}

// Delete implements status.Sink.
func (s *Sink) Delete(_ context.Context, ref status.Ref) error { return s.remove(ref) }

func (s *Sink) remove(ref status.Ref) error {
	return s.change(func() error {
		pod, err := s.find(ref)
		if err != nil {
			return err
		}
		delete(s.pods, keyOf(pod))
		delete(s.given, keyOf(pod))
		s.changes++
		return nil
	})
}

// find returns the pod of that name and UID. s.mu is held.
func (s *Sink) find(ref status.Ref) (*v1.Pod, error) {
	switch pod := s.pods[key{ref.Namespace, ref.Name}]; {
	case pod == nil:
		return nil, fmt.Errorf("filesink: %s: %w", ref, status.ErrNotFound)
	case pod.UID != ref.UID:
		return nil, fmt.Errorf("filesink: %s: %w: the pod of that name has the UID %s", ref, status.ErrConflict, pod.UID)
	default:
		return pod, nil
	}
}

// change does something to the pods, which counts changes, and returns when the
// file says so.
func (s *Sink) change(do func() error) error {
	s.mu.Lock()
	err := do()
	mine := s.changes
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.write(mine)
}

// write returns when the file has as many changes at least. Who waits for the file
// meanwhile finds that somebody else has written its change, too.
func (s *Sink) write(changes int64) error {
	s.file.Lock()
	defer s.file.Unlock()
	if s.written >= changes {
		return nil
	}
	list, changes := s.list()
	text, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("filesink: %w", err)
	}
	if err := fs.WriteAtomic(s.path, text, 0o600); err != nil {
		return fmt.Errorf("filesink: %w", err)
	}
	s.written = changes
	return nil
}

// list returns all pods, by namespace and name, and how many changes are in them.
func (s *Sink) list() (*v1.PodList, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := &v1.PodList{Items: make([]v1.Pod, 0, len(s.pods))}
	list.APIVersion, list.Kind = "v1", "PodList"
	for _, pod := range s.pods {
		list.Items = append(list.Items, *pod)
	}
	slices.SortFunc(list.Items, func(a, b v1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return list, s.changes
}

// ServeHTTP answers GET and HEAD with all pods.
func (s *Sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	list, _ := s.list()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(list) // who does not listen any more is told nothing
}
