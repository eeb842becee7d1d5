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
)

// Config configures a Book. Only Dir is required.
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
	// Checked is told the result of each Verify. It must not block. nil: nobody
	// is told.
	Checked func(Result)
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

// Book keeps the records. Use Open. It is safe for concurrent use.
type Book struct {
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
// them while the Book is in use.
func Open(cfg Config) (*Book, error) {
	if cfg.Dir == "" {
		return nil, errors.New("records: Config.Dir is required")
	}
	r, err := newRule(cfg.Policy, cfg.Allowlist)
	if err != nil {
		return nil, err
	}
	b := &Book{
		rule: r, checked: cfg.Checked, log: cfg.Logger,
		pulling:   shelf[intent]{folder: folder(filepath.Join(cfg.Dir, "pulling")), parse: parseIntent},
		pulled:    shelf[record]{folder: folder(filepath.Join(cfg.Dir, "pulled")), parse: parseRecord},
		preloaded: shelf[preloadedNames]{folder: folder(filepath.Join(cfg.Dir, "preloaded")), parse: parsePreloaded},
		running:   map[string]int{}, doubt: map[string]time.Time{}, step: func(string) {},
	}
	if b.checked == nil {
		b.checked = func(Result) {}
	}
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
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
func (b *Book) Begin(image string, before *runtimeapi.Image) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.begin(image, before); err != nil {
		return fmt.Errorf("records: noting the pull of %q: %w", image, err)
	}
	return nil
}

func (b *Book) begin(image string, before *runtimeapi.Image) error {
	if before.GetId() != "" {
		if _, known, err := b.pulled.get(before.GetId()); err == nil && !known {
			if err := b.notePreloaded(before, ""); err != nil {
				return err
			}
		}
	}
	b.step("preloaded")
	if b.running[image] == 0 {
		if err := b.pulling.put(image, intent{TypeMeta: typeMeta(kindIntent), Image: image}); err != nil {
			return err
		}
	}
	b.step("intent")
	b.running[image]++
	delete(b.doubt, image)
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
func (b *Book) Pulled(p Pull) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.finish(p.Image)
	err := b.write(p)
	if err == nil && b.running[p.Image] == 0 {
		b.step("record")
		err = b.pulling.remove(p.Image)
	}
	if err != nil {
		b.doubt[p.Image] = time.Now()
		return fmt.Errorf("records: recording the pull of %q: %w", p.Image, err)
	}
	b.step("done")
	return nil
}

// Share records that a pod which waited for another's pull may use what came, with
// its own credential. The pull itself is recorded by Pulled.
func (b *Book) Share(p Pull) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.write(p); err != nil {
		return fmt.Errorf("records: recording the pull of %q: %w", p.Image, err)
	}
	return nil
}

// write adds a pull to the record of the image.
func (b *Book) write(p Pull) error {
	name, err := imageref.Parse(p.Image)
	if err != nil {
		return err
	}
	old, known, _ := b.record(p.Ref) // one that cannot be read is replaced
	if !known && p.Status != nil {
		if err := b.notePreloaded(p.Status, name.Canonical()); err != nil {
			return err
		}
		b.step("preloaded")
	}
	return b.add(old, known, name.Repository, accessOf(p.Credential))
}

// add adds access to a record and writes it if that, or that it exists, is new.
func (b *Book) add(old record, known bool, repository string, more access) error {
	now := time.Now()
	fresh, changed := old.merged(repository, more, now)
	if known && !changed {
		return nil
	}
	fresh.TypeMeta = typeMeta(kindRecord)
	if !known {
		fresh.LastUpdatedTime = metav1.Time{Time: now}
	}
	return b.pulled.put(fresh.ImageRef, fresh)
}

// Failed notes that a pull brought nothing. With doubt it is not known whether it
// did: it was called off, or the connection to the runtime broke.
func (b *Book) Failed(image string, doubt bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.finish(image)
	if doubt {
		b.doubt[image] = time.Now()
	}
	if _, doubtful := b.doubt[image]; doubtful || b.running[image] > 0 {
		return nil
	}
	if err := b.pulling.remove(image); err != nil {
		return fmt.Errorf("records: the failed pull of %q: %w", image, err)
	}
	return nil
}

func (b *Book) finish(image string) {
	if b.running[image]--; b.running[image] <= 0 {
		delete(b.running, image)
	}
}

// Verify tells whether a pod may use an image that is present without a pull.
// image is its name with tag or digest, ref its ID. lookup finds the pod's
// credentials; it is called at most once, and only when they matter. false with an
// error means that it could not be found out.
func (b *Book) Verify(ctx context.Context, image, ref string, lookup func(context.Context) ([]credentials.Credential, error)) (bool, error) {
	result, err := b.verify(ctx, image, ref, lookup)
	b.checked(result)
	return result == ResultAllowed || result == ResultRecorded, err
}

func (b *Book) verify(ctx context.Context, image, ref string, lookup func(context.Context) ([]credentials.Credential, error)) (Result, error) {
	if b.rule.policy == NeverVerify {
		return ResultAllowed, nil
	}
	name, err := imageref.Parse(image)
	if err != nil {
		return ResultError, err
	}
	old, pulled, err := b.known(image, ref, name)
	switch {
	case err != nil:
		return ResultError, fmt.Errorf("records: %w", err)
	case !b.rule.verifies(name.Repository, pulled):
		return ResultAllowed, nil
	}
	allowed := old.CredentialMapping[name.Repository]
	switch {
	case allowed.NodePodsAccessible:
		return ResultRecorded, nil
	case allowed.equal(access{}):
		return ResultMustAuthenticate, nil
	}
	found, err := lookup(ctx)
	ok, learnt := allowed.opened(found)
	if !ok {
		if err != nil {
			return ResultError, err
		}
		return ResultMustAuthenticate, nil
	}
	if !learnt.equal(access{}) && len(allowed.KubernetesSecrets) < maxSecrets {
		b.learn(ref, name.Repository, learnt)
	}
	return ResultRecorded, nil
}

// known returns the record of an image, and whether the agent pulled it, or may have,
// otherwise than under other names than one which it had before.
func (b *Book) known(image, ref string, name imageref.Name) (record, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old, recorded, err := b.record(ref)
	if err != nil {
		return record{}, false, err
	}
	pulled := recorded || b.running[image] > 0
	if !pulled {
		if _, pulled, err = b.pulling.get(image); err != nil {
			return record{}, false, err
		}
	}
	if pulled && b.rule.policy == NeverVerifyPreloadedImages {
		p, _, err := b.preloaded.get(ref)
		if err != nil {
			return record{}, false, err
		}
		pulled = !slices.Contains(p.Repositories, name.Canonical())
	}
	return old, pulled, nil
}

// learn adds to a record what was found without a pull. If that fails, it is found
// again next time.
func (b *Book) learn(ref, repository string, more access) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old, known, err := b.record(ref)
	if err == nil && known {
		err = b.add(old, true, repository, more)
	}
	if err != nil {
		b.log.Warn("cannot add a secret to the record of an image", "image", ref, "err", err)
	}
}

// record returns the record of an image ID. With an error it is empty.
func (b *Book) record(ref string) (out record, known bool, err error) {
	out, known, err = b.pulled.get(ref)
	out.ImageRef = ref
	return out, known, err
}

func typeMeta(kind string) metav1.TypeMeta { return metav1.TypeMeta{Kind: kind, APIVersion: version} }
