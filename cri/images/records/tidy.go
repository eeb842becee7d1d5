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
	// unknownFor is the time after a pull with unknown outcome in which its image may still appear.
	unknownFor = 10 * time.Minute
	// timeGrain is the tolerance for times in records, which are in whole seconds.
	timeGrain = 2 * time.Second
)

// preloadedNames are the names of an image before its first pull.
type preloadedNames struct {
	LastUpdatedTime metav1.Time `json:"lastUpdatedTime"`
	ImageRef        string      `json:"imageRef"`
	// Repositories are canonical: "docker.io/library/busybox".
	Repositories []string `json:"repositories"`
}

// notePreloaded records the repositories of an image that was never pulled. It leaves out
// except, which is being pulled now, and repositories with an intent.
func (s *Store) notePreloaded(image *runtimeapi.Image, except string) error {
	known, _, _ := s.preloaded.get(image.GetId()) // an unreadable one is replaced
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

func namesOf(image *runtimeapi.Image) func(func(imageref.Name) bool) {
	return func(yield func(imageref.Name) bool) {
		for _, s := range slices.Concat(image.GetRepoTags(), image.GetRepoDigests()) {
			if name, err := imageref.Parse(s); err == nil && !yield(name) {
				return
			}
		}
	}
}

// intents returns the images of all intents, by canonical repository.
func (s *Store) intents() map[string][]string {
	out := map[string][]string{}
	for image := range s.pulling.entries {
		if name, err := imageref.Parse(image); err == nil {
			out[name.Canonical()] = append(out[name.Canonical()], image)
		}
	}
	return out
}

// Tidy updates the records for a list of all images and the time of its request. Call it once
// after the start, to settle pulls that a crash interrupted, and then every few minutes. It leaves
// entries written after listed unchanged. It removes records of removed images. It records a
// present image of a pull in doubt as pulled without credentials, so that pods must authenticate.
func (s *Store) Tidy(images []*runtimeapi.Image, listed time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := errors.Join(s.settle(images, listed), s.prune(images, listed))
	if err != nil {
		return fmt.Errorf("records: %w", err)
	}
	return nil
}

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
			since, doubtful := s.unknownSince[image]
			if !doubtful {
				since = now
				s.unknownSince[image] = since
			}
			errs = append(errs, s.settleOne(image, repository, find(present, image), listed.Sub(since)))
		}
	}
	return errors.Join(errs...)
}

// settleOne records the image of a pull with unknown outcome, if present. After unknownFor it
// removes the intent.
func (s *Store) settleOne(image, repository string, found *runtimeapi.Image, unknown time.Duration) error {
	if found != nil {
		old, known, _ := s.record(found.GetId()) // an unreadable record is replaced
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
	if unknown < unknownFor {
		return nil
	}
	if err := s.pulling.remove(image); err != nil {
		return err
	}
	delete(s.unknownSince, image)
	return nil
}

func find(present map[string]*runtimeapi.Image, image string) *runtimeapi.Image {
	name, err := imageref.Parse(image)
	if err != nil {
		return nil
	}
	return present[name.Full()]
}

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
