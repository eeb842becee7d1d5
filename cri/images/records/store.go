package records

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/images/credentials"
	"github.com/podwright/podwright/cri/images/imageref"
	"github.com/podwright/podwright/internal/fields"
)

// Config configures a Store. Only Dir is required.
type Config struct {
	// Dir is the folder of the records, "image_manager" below the kubelet's root.
	// It and what is in it are made with mode 0700. Required.
	Dir string
	// Policy says for which images pods must show that they may use them. Empty
	// means NeverVerifyPreloadedImages.
	Policy Policy
	// Allowlist are repositories, without tag and digest, and beginnings of
	// repositories that end with "/*". Only with NeverVerifyAllowlistedImages;
	// default none.
	Allowlist []string
	// OnCheck is called with the result of each Verify. It must not block. nil: nobody
	// is told.
	OnCheck func(Result)
	// Logger gets a warning about each file that cannot be used, when the folder is
	// opened. nil discards.
	Logger *slog.Logger
}

// Result is how Verify came to its answer.
type Result string

// The results, named as in the kubelet's metric.
const (
	// ResultAllowed: the policy asks for nothing.
	ResultAllowed Result = "credentialPolicyAllowed"
	// ResultRecorded: a record shows that the pod may use the image.
	ResultRecorded Result = "credentialRecordFound"
	// ResultMustAuthenticate: nothing shows it.
	ResultMustAuthenticate Result = "mustAuthenticate"
	// ResultError: nothing could be found out, which shows nothing either.
	ResultError Result = "error"
)

// Store keeps the records. Use Open. It is safe for concurrent use.
type Store struct {
	rule    rule
	checked func(Result)
	log     *slog.Logger

	mu        sync.Mutex // guards all that follows, and the files
	pulling   shelf[intent]
	pulled    shelf[record]
	preloaded shelf[preloadedNames]
	running   map[string]int       // pulls under way, per image
	doubt     map[string]time.Time // since when it is unknown what became of an intent
	step      func(string)         // called between steps, for tests; never nil
}

// Open reads the records in a folder, which need not exist. Nobody else must change
// them while the Store is in use.
func Open(cfg Config) (*Store, error) {
	if err := fields.Required("records: Config.Dir", cfg.Dir); err != nil {
		return nil, err
	}
	fields.Default(&cfg.OnCheck, func(Result) {})
	fields.Logger(&cfg.Logger)
	r, err := newRule(cfg.Policy, cfg.Allowlist)
	if err != nil {
		return nil, err
	}
	b := &Store{
		rule: r, checked: cfg.OnCheck, log: cfg.Logger,
		pulling:   shelf[intent]{folder: folder(filepath.Join(cfg.Dir, "pulling")), parse: parseIntent},
		pulled:    shelf[record]{folder: folder(filepath.Join(cfg.Dir, "pulled")), parse: parseRecord},
		preloaded: shelf[preloadedNames]{folder: folder(filepath.Join(cfg.Dir, "preloaded")), parse: parsePreloaded},
		running:   map[string]int{}, doubt: map[string]time.Time{}, step: func(string) {},
	}
	if err := errors.Join(b.pulling.load(), b.pulled.load(), b.preloaded.load()); err != nil {
		return nil, fmt.Errorf("records: %w", err)
	}
	for _, bad := range []map[string]error{b.pulling.bad, b.pulled.bad, b.preloaded.bad} {
		for _, err := range bad {
			b.log.Warn("cannot use a record of an image", "err", err)
		}
	}
	return b, nil
}

// Begin notes that an image is about to be pulled; without the note it must not be.
// image is its name with tag or digest; before is what the name stands for on the
// node, nil when that is nothing. Each Begin is followed by one Pulled or Failed.
func (s *Store) Begin(image string, before *runtimeapi.Image) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.begin(image, before); err != nil {
		return fmt.Errorf("records: noting the pull of %q: %w", image, err)
	}
	return nil
}

func (s *Store) begin(image string, before *runtimeapi.Image) error {
	if before.GetId() != "" {
		if _, known, err := s.pulled.get(before.GetId()); err == nil && !known {
			if err := s.notePreloaded(before, ""); err != nil {
				return err
			}
		}
	}
	s.step("preloaded")
	if s.running[image] == 0 {
		if err := s.pulling.put(image, intent{TypeMeta: typeMeta(kindIntent), Image: image}); err != nil {
			return err
		}
	}
	s.step("intent")
	s.running[image]++
	delete(s.doubt, image)
	return nil
}

// Pull is a pull that succeeded.
type Pull struct {
	// Image is the name that Begin was given.
	Image string
	// Ref is the image's ID, as the runtime answered the pull.
	Ref string
	// Credential is what opened the registry; nil for an anonymous pull.
	Credential *credentials.Credential
	// Status is the image as it is now, nil when that is not known.
	Status *runtimeapi.Image
}

// Pulled records a pull. After an error the intent stays: the image counts as one
// that nobody has shown to be allowed to use.
func (s *Store) Pulled(p Pull) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finish(p.Image)
	err := s.write(p)
	if err == nil && s.running[p.Image] == 0 {
		s.step("record")
		err = s.pulling.remove(p.Image)
	}
	if err != nil {
		s.doubt[p.Image] = time.Now()
		return fmt.Errorf("records: recording the pull of %q: %w", p.Image, err)
	}
	s.step("done")
	return nil
}

// Share records that a pod which waited for another's pull may use what came, with
// its own credential. The pull itself is recorded by Pulled.
func (s *Store) Share(p Pull) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.write(p); err != nil {
		return fmt.Errorf("records: recording the pull of %q: %w", p.Image, err)
	}
	return nil
}

// write adds a pull to the record of the image.
func (s *Store) write(p Pull) error {
	name, err := imageref.Parse(p.Image)
	if err != nil {
		return err
	}
	old, known, _ := s.record(p.Ref) // one that cannot be read is replaced
	if !known && p.Status != nil {
		if err := s.notePreloaded(p.Status, name.Canonical()); err != nil {
			return err
		}
		s.step("preloaded")
	}
	return s.add(old, known, name.Repository, accessOf(p.Credential))
}

// add adds access to a record and writes it if that, or that it exists, is new.
func (s *Store) add(old record, known bool, repository string, more access) error {
	now := time.Now()
	fresh, changed := merged(old, repository, more, now)
	if known && !changed {
		return nil
	}
	fresh.TypeMeta = typeMeta(kindRecord)
	if !known {
		fresh.LastUpdatedTime = metav1.Time{Time: now}
	}
	return s.pulled.put(fresh.ImageRef, fresh)
}

// Failed notes that a pull brought nothing. With doubt it is not known whether it
// did: it was called off, or the connection to the runtime broke.
func (s *Store) Failed(image string, doubt bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finish(image)
	if doubt {
		s.doubt[image] = time.Now()
	}
	if _, doubtful := s.doubt[image]; doubtful || s.running[image] > 0 {
		return nil
	}
	if err := s.pulling.remove(image); err != nil {
		return fmt.Errorf("records: the failed pull of %q: %w", image, err)
	}
	return nil
}

// Counts are how many pulls are noted as under way, or in doubt, and how many images have a
// record.
func (s *Store) Counts() (pulling, pulled int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pulling.entries), len(s.pulled.entries)
}

func (s *Store) finish(image string) {
	if s.running[image]--; s.running[image] <= 0 {
		delete(s.running, image)
	}
}

// Verify tells whether a pod may use an image that is present without a pull.
// image is its name with tag or digest, ref its ID. lookup finds the pod's
// credentials; it is called at most once, and only when they matter. false with an
// error means that it could not be found out.
func (s *Store) Verify(ctx context.Context, image, ref string, lookup func(context.Context) ([]credentials.Credential, error)) (bool, error) {
	result, err := s.verify(ctx, image, ref, lookup)
	s.checked(result)
	return result == ResultAllowed || result == ResultRecorded, err
}

func (s *Store) verify(ctx context.Context, image, ref string, lookup func(context.Context) ([]credentials.Credential, error)) (Result, error) {
	if s.rule.policy == NeverVerify {
		return ResultAllowed, nil
	}
	name, err := imageref.Parse(image)
	if err != nil {
		return ResultError, err
	}
	old, pulled, err := s.known(image, ref, name)
	switch {
	case err != nil:
		return ResultError, fmt.Errorf("records: %w", err)
	case !s.rule.verifies(name.Repository, pulled):
		return ResultAllowed, nil
	}
	allowed := old.CredentialMapping[name.Repository]
	switch {
	case allowed.NodePodsAccessible:
		return ResultRecorded, nil
	case equal(allowed, access{}):
		return ResultMustAuthenticate, nil
	}
	found, err := lookup(ctx)
	ok, learnt := opened(allowed, found)
	if !ok {
		if err != nil {
			return ResultError, err
		}
		return ResultMustAuthenticate, nil
	}
	if !equal(learnt, access{}) && len(allowed.KubernetesSecrets) < maxSecrets {
		s.learn(ref, name.Repository, learnt)
	}
	return ResultRecorded, nil
}

// known returns the record of an image, and whether the agent pulled it, or may have,
// otherwise than under other names than one which it had before.
func (s *Store) known(image, ref string, name imageref.Name) (record, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, recorded, err := s.record(ref)
	if err != nil {
		return record{}, false, err
	}
	pulled := recorded || s.running[image] > 0
	if !pulled {
		if _, pulled, err = s.pulling.get(image); err != nil {
			return record{}, false, err
		}
	}
	if pulled && s.rule.policy == NeverVerifyPreloadedImages {
		p, _, err := s.preloaded.get(ref)
		if err != nil {
			return record{}, false, err
		}
		pulled = !slices.Contains(p.Repositories, name.Canonical())
	}
	return old, pulled, nil
}

// learn adds to a record what was found without a pull. If that fails, it is found
// again next time.
func (s *Store) learn(ref, repository string, more access) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, known, err := s.record(ref)
	if err == nil && known {
		err = s.add(old, true, repository, more)
	}
	if err != nil {
		s.log.Warn("cannot add a secret to the record of an image", "image", ref, "err", err)
	}
}

// record returns the record of an image ID. With an error it is empty.
func (s *Store) record(ref string) (out record, known bool, err error) {
	out, known, err = s.pulled.get(ref)
	out.ImageRef = ref
	return out, known, err
}

func typeMeta(kind string) metav1.TypeMeta { return metav1.TypeMeta{Kind: kind, APIVersion: version} }
