package records

import (
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/images/imageref"
)

const (
	// doubtFor is how long after a pull that nobody saw end its image may still come.
	doubtFor = 10 * time.Minute
	// timeGrain is how much earlier the time in a record may be than the truth: it
	// is written in whole seconds.
	timeGrain = 2 * time.Second
)

// preloadedNames says which names an image had before anybody pulled it.
type preloadedNames struct {
	LastUpdatedTime metav1.Time `json:"lastUpdatedTime"`
	ImageRef        string      `json:"imageRef"`
	// Repositories are complete: "docker.io/library/busybox".
	Repositories []string `json:"repositories"`
}

// notePreloaded notes the repositories of an image that nobody has pulled so far:
// those of all its names except for the one that is now, and those of which a pull is
// under way or in doubt.
func (s *Store) notePreloaded(image *runtimeapi.Image, except string) error {
	known, _, _ := s.preloaded.get(image.GetId()) // one that cannot be read is replaced
	pulling := s.intents()
	names := slices.Clone(known.Repositories)
	for name := range namesOf(image) {
		repository := name.Canonical()
		if repository == except || pulling[repository] != nil || slices.Contains(names, repository) {
			continue
		}
		names = append(names, repository)
	}
	if len(names) == len(known.Repositories) {
		return nil
	}
	slices.Sort(names)
	return s.preloaded.put(image.GetId(), preloadedNames{
		LastUpdatedTime: metav1.Time{Time: time.Now()}, ImageRef: image.GetId(), Repositories: names,
	})
}

// namesOf are the names of an image that parse.
func namesOf(image *runtimeapi.Image) func(func(imageref.Name) bool) {
	return func(yield func(imageref.Name) bool) {
		for _, s := range slices.Concat(image.GetRepoTags(), image.GetRepoDigests()) {
			if name, err := imageref.Parse(s); err == nil && !yield(name) {
				return
			}
		}
	}
}

// intents are the images of all intents, by repository.
func (s *Store) intents() map[string][]string {
	out := map[string][]string{}
	for image := range s.pulling.entries {
		if name, err := imageref.Parse(image); err == nil {
			out[name.Canonical()] = append(out[name.Canonical()], image)
		}
	}
	return out
}

// Tidy puts the records right, given all images and when they were listed. It is to
// be called once after the start, when it settles the pulls that a crash cut off,
// and then every few minutes. What was noted after listed is left alone. Records of
// images that are gone are removed; a pull in doubt whose image is there is recorded
// as one without credentials: who wants the image must authenticate.
func (s *Store) Tidy(images []*runtimeapi.Image, listed time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := errors.Join(s.settle(images, listed), s.prune(images, listed))
	if err != nil {
		return fmt.Errorf("records: %w", err)
	}
	return nil
}

// settle ends the doubt about pulls that nobody saw end.
func (s *Store) settle(images []*runtimeapi.Image, listed time.Time) error {
	var errs []error
	present := map[string]*runtimeapi.Image{}
	for _, image := range images {
		for name := range namesOf(image) {
			present[name.Full()] = image
		}
	}
	now := time.Now()
	for repository, names := range s.intents() {
		for _, image := range names {
			if s.running[image] > 0 {
				continue
			}
			since, doubtful := s.doubt[image]
			if !doubtful {
				since = now
				s.doubt[image] = since
			}
			errs = append(errs, s.settleOne(image, repository, find(present, image), listed.Sub(since)))
		}
	}
	return errors.Join(errs...)
}

// settleOne looks what became of a pull that nobody saw end. What it brought is
// recorded; the intent goes when nothing can come any more.
func (s *Store) settleOne(image, repository string, found *runtimeapi.Image, doubted time.Duration) error {
	if found != nil {
		old, known, _ := s.record(found.GetId()) // one that cannot be read is replaced
		if !known {
			if err := s.notePreloaded(found, repository); err != nil {
				return err
			}
			s.step("preloaded")
			if err := s.add(old, false, "", access{}); err != nil {
				return err
			}
			s.step("record")
		}
	}
	if doubted < doubtFor {
		return nil
	}
	if err := s.pulling.remove(image); err != nil {
		return err
	}
	delete(s.doubt, image)
	return nil
}

func find(present map[string]*runtimeapi.Image, image string) *runtimeapi.Image {
	name, err := imageref.Parse(image)
	if err != nil {
		return nil
	}
	return present[name.Full()]
}

// prune removes what is known of images that are gone.
func (s *Store) prune(images []*runtimeapi.Image, listed time.Time) error {
	present := map[string]bool{}
	for _, image := range images {
		present[image.GetId()] = true
	}
	stale := func(ref string, updated metav1.Time) bool {
		return !present[ref] && updated.Time.Before(listed.Add(-timeGrain))
	}
	var errs []error
	for ref, r := range s.pulled.entries {
		if stale(ref, r.LastUpdatedTime) {
			errs = append(errs, s.pulled.remove(ref))
		}
	}
	for ref, p := range s.preloaded.entries {
		if stale(ref, p.LastUpdatedTime) {
			errs = append(errs, s.preloaded.remove(ref))
		}
	}
	return errors.Join(errs...)
}
