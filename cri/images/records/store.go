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

// Config configures a Store.
type Config struct {
	// Dir is the folder of the records, "image_manager" below the kubelet's root. It and its
	// contents are created with mode 0700. Required.
	Dir string
	// Policy selects the images that need a proof of access. Default: NeverVerifyPreloadedImages.
	Policy Policy
	// Allowlist are repositories without tag and digest, and prefixes of repositories that end
	// with "/*". It requires NeverVerifyAllowlistedImages. Default: none.
	Allowlist []string
	// OnCheck is called with the result of each Verify. It must not block. Optional.
	OnCheck func(Result)
	// Logger receives a warning for each unusable file when the folder is opened. Nil discards.
	Logger *slog.Logger
}

// Result is the reason for the decision of Verify.
type Result string

// The results, named as in the kubelet's metric.
const (
	// ResultAllowed: the policy requires no proof.
	ResultAllowed Result = "credentialPolicyAllowed"
	// ResultRecorded: a record shows the pod's access.
	ResultRecorded Result = "credentialRecordFound"
	// ResultMustAuthenticate: no record shows it.
	ResultMustAuthenticate Result = "mustAuthenticate"
	// ResultError: the check failed, so access is not shown.
	ResultError Result = "error"
)

// Store keeps the records. Create it with Open. It is safe for concurrent use.
type Store struct {
	rule    rule
	checked func(Result)
	log     *slog.Logger

	mu           sync.Mutex // guards the fields below, and the files
	pulling      shelf[intent]
	pulled       shelf[record]
	preloaded    shelf[preloadedNames]
	running      map[string]int       // running pulls per image
	unknownSince map[string]time.Time // time since which an intent's outcome is unknown
	step         func(string)         // called between steps, for tests; never nil
}

// Open reads the records in a folder, which need not exist. No other process may change them while
// the Store is in use.
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
		running:   map[string]int{}, unknownSince: map[string]time.Time{}, step: func(string) {},
	}
	if err := errors.Join(b.pulling.load(), b.pulled.load(), b.preloaded.load()); err != nil {
		return nil, fmt.Errorf("records: %w", err)
	}
	for _, bad := range []map[string]error{b.pulling.bad, b.pulled.bad, b.preloaded.bad} {
		for _, err := range bad {
			b.log.Warn("image record not usable", "err", err)
		}
	}
	return b, nil
}

// Begin records that a pull is about to start; after an error the pull must not start. image is
// the name with tag or digest; before is the present image with this name, or nil. Each Begin
// needs one Pulled or Failed.
func (s *Store) Begin(image string, before *runtimeapi.Image) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.begin(image, before); err != nil {
		return fmt.Errorf("records: record the intent to pull %q: %w", image, err)
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
	delete(s.unknownSince, image)
	return nil
}

// Pull is a successful pull.
type Pull struct {
	// Image is the name passed to Begin.
	Image string
	// Ref is the image's ID from the runtime.
	Ref string
	// Credential is the successful credential; nil for an anonymous pull.
	Credential *credentials.Credential
	// Status is the image after the pull, or nil if unknown.
	Status *runtimeapi.Image
}

// Pulled records a pull. After an error the intent stays, so that every pod must authenticate for
// the image.
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
		s.unknownSince[p.Image] = time.Now()
		return fmt.Errorf("records: recording the pull of %q: %w", p.Image, err)
	}
	s.step("done")
	return nil
}

// Share records the access of a pod that waited for another pod's pull, with its own credential.
// The pull itself is recorded by Pulled.
func (s *Store) Share(p Pull) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.write(p); err != nil {
		return fmt.Errorf("records: recording the pull of %q: %w", p.Image, err)
	}
	return nil
}

func (s *Store) write(p Pull) error {
	name, err := imageref.Parse(p.Image)
	if err != nil {
		return err
	}
	old, known, _ := s.record(p.Ref) // an unreadable record is replaced
	if !known && p.Status != nil {
		if err := s.notePreloaded(p.Status, name.Canonical()); err != nil {
			return err
		}
		s.step("preloaded")
	}
	return s.add(old, known, name.Repository, accessOf(p.Credential))
}

// add adds access to a record and writes it if the record changed or is new.
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

// Failed records a failed pull. unknown means that the pull may still succeed: it was cancelled, or
// the connection to the runtime broke.
func (s *Store) Failed(image string, unknown bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finish(image)
	if unknown {
		s.unknownSince[image] = time.Now()
	}
	if _, doubtful := s.unknownSince[image]; doubtful || s.running[image] > 0 {
		return nil
	}
	if err := s.pulling.remove(image); err != nil {
		return fmt.Errorf("records: the failed pull of %q: %w", image, err)
	}
	return nil
}

// Counts returns the number of intents (running pulls and pulls in doubt) and the number of
// records.
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

// Verify reports whether a pod may use a present image without a pull. image is its name with tag
// or digest, ref its ID. lookup finds the pod's credentials; it is called at most once, and only
// if needed. False with an error means that the check failed.
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
	ok, added := opened(allowed, found)
	if !ok {
		if err != nil {
			return ResultError, err
		}
		return ResultMustAuthenticate, nil
	}
	if !equal(added, access{}) && len(allowed.KubernetesSecrets) < maxSecrets {
		s.addAccess(ref, name.Repository, added)
	}
	return ResultRecorded, nil
}

// known returns the record of an image, and whether the agent pulled it or may have. With
// NeverVerifyPreloadedImages a preloaded name does not count as pulled.
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

// addAccess adds access found without a pull to a record. If that fails, the next Verify repeats it.
func (s *Store) addAccess(ref, repository string, more access) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, known, err := s.record(ref)
	if err == nil && known {
		err = s.add(old, true, repository, more)
	}
	if err != nil {
		s.log.Warn("adding a secret to an image record failed", "image", ref, "err", err)
	}
}

// record returns the record of an image ID. With an error it is empty.
func (s *Store) record(ref string) (out record, known bool, err error) {
	out, known, err = s.pulled.get(ref)
	out.ImageRef = ref
	return out, known, err
}

func typeMeta(kind string) metav1.TypeMeta { return metav1.TypeMeta{Kind: kind, APIVersion: version} }
