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
	// Path is the absolute path of the file, in a folder that exists.
	Path string
	// Logger receives the reason why New has set a file aside. Default: no log.
	Logger *slog.Logger
}

// Sink is a status.Sink and an http.Handler. Use New. It is safe for concurrent use.
type Sink struct {
	path string

	mu      sync.Mutex
	pods    map[key]*v1.Pod // entries are replaced, never changed
	given   map[key]*v1.Pod // the last arguments of Put
	changes int64           // number of changes of pods

	file    sync.Mutex // locked during a write of the file
	written int64      // number of changes in the file
}

type key struct{ namespace, name string }

func keyOf(pod *v1.Pod) key { return key{pod.Namespace, pod.Name} }

var (
	_ status.Sink  = (*Sink)(nil)
	_ http.Handler = (*Sink)(nil)
)

// New returns a Sink with the pods of the file, and creates a missing file.
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
	if err := fs.RemoveTemporary(s.path); err != nil {
		return nil, fmt.Errorf("filesink: %w", err)
	}
	s.changes++
	return s, s.write(s.changes)
}

var errCorrupt = errors.New("not a list of pods")

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
		log.Warn("Unusable status file renamed", "path", s.path, "err", err)
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
			return fmt.Errorf("%w: items[%d]: metadata.name and metadata.uid are required", errCorrupt, i)
		}
		s.pods[keyOf(pod)] = pod
	}
	return nil
}

// Put adds or replaces a pod. Its status stays if the UID is the same. pod must not be changed
// afterwards. Put of the same pointer again has no cost.
func (s *Sink) Put(pod *v1.Pod) error {
	return s.change(func() error {
		if s.given[keyOf(pod)] == pod {
			return nil
		}
		put := *pod
		if was := s.pods[keyOf(pod)]; was != nil && was.UID == pod.UID {
			put.Status = was.Status // otherwise the pod's own status
		}
		s.pods[keyOf(pod)], s.given[keyOf(pod)] = &put, pod
		s.changes++
		return nil
	})
}

// Remove removes a pod. It returns nil if the pod does not exist or has another UID.
func (s *Sink) Remove(pod *v1.Pod) error {
	err := s.remove(status.Ref{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID})
	if errors.Is(err, status.ErrNotFound) || errors.Is(err, status.ErrConflict) {
		return nil
	}
	return err
}

// Prune removes the pods that wanted rejects.
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

// Status returns the stored status of a pod, for example from before a restart of the agent, or
// the zero status. It must not be changed.
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
		patched.Status = *status.Patched(&pod.Status, old, new)
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

// find returns the pod with the name and the UID of ref. The caller holds mu.
func (s *Sink) find(ref status.Ref) (*v1.Pod, error) {
	switch pod := s.pods[key{ref.Namespace, ref.Name}]; {
	case pod == nil:
		return nil, fmt.Errorf("filesink: %s: %w", ref, status.ErrNotFound)
	case pod.UID != ref.UID:
		return nil, fmt.Errorf("filesink: %s: %w: the pod has UID %s", ref, status.ErrConflict, pod.UID)
	default:
		return pod, nil
	}
}

// change calls do, which changes the pods and counts the changes, and waits until they are in the
// file.
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

// write waits until the file contains at least that many changes. Concurrent callers share a
// write.
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

// list returns all pods, by namespace and name, and the number of changes in them.
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

// ServeHTTP responds to GET and HEAD with all pods.
func (s *Sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	list, _ := s.list()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(list) // the client has disconnected
}
