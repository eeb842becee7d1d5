package records

import (
	"errors"
	"fmt"
	"strings"

	"github.com/podwright/podwright/cri/images/imageref"
)

// Policy selects the images that need a proof of the pod's access.
type Policy string

// The policies, named as in imagePullCredentialsVerificationPolicy.
const (
	// NeverVerify lets every pod use every image on the node.
	NeverVerify Policy = "NeverVerify"
	// NeverVerifyPreloadedImages lets every pod use images that were present before any pull. The
	// default.
	NeverVerifyPreloadedImages Policy = "NeverVerifyPreloadedImages"
	// NeverVerifyAllowlistedImages lets every pod use the images in Config.Allowlist.
	NeverVerifyAllowlistedImages Policy = "NeverVerifyAllowlistedImages"
	// AlwaysVerify has no exceptions.
	AlwaysVerify Policy = "AlwaysVerify"
)

type rule struct {
	policy   Policy
	exact    map[string]bool
	prefixes []string
}

func newRule(policy Policy, allowlist []string) (rule, error) {
	r := rule{policy: policy, exact: map[string]bool{}}
	switch policy {
	case "":
		r.policy = NeverVerifyPreloadedImages
	case NeverVerify, NeverVerifyPreloadedImages, NeverVerifyAllowlistedImages, AlwaysVerify:
	default:
		return rule{}, fmt.Errorf("records: Config.Policy %q is not %s, %s, %s or %s", policy,
			NeverVerify, NeverVerifyPreloadedImages, NeverVerifyAllowlistedImages, AlwaysVerify)
	}
	if len(allowlist) > 0 && policy != NeverVerifyAllowlistedImages {
		return rule{}, fmt.Errorf("records: Config.Allowlist needs Config.Policy %s", NeverVerifyAllowlistedImages)
	}
	for i, pattern := range allowlist {
		if err := r.allow(pattern); err != nil {
			return rule{}, fmt.Errorf("records: Config.Allowlist[%d] %q: %w", i, pattern, err)
		}
	}
	return r, nil
}

// CheckAllowlistEntry returns an error if an entry of Config.Allowlist is invalid.
func CheckAllowlistEntry(pattern string) error {
	r := rule{exact: map[string]bool{}}
	return r.allow(pattern)
}

// allow adds an entry: a repository, or a prefix of repositories that ends with "/*".
func (r *rule) allow(pattern string) error {
	prefix, wild := strings.CutSuffix(pattern, "/*")
	if wild {
		// The prefix must be the beginning of a valid name.
		if _, err := imageref.Parse(prefix + "/x"); err != nil || prefix == "" {
			return errors.New("the text before /* is not the beginning of an image name")
		}
		r.prefixes = append(r.prefixes, prefix+"/")
		return nil
	}
	name, err := imageref.Parse(pattern)
	if err != nil {
		return err
	}
	if name.Tag != "" || name.Digest != "" {
		return errors.New("tags and digests are not allowed")
	}
	r.exact[name.Repository] = true
	return nil
}

func (r *rule) listed(repository string) bool {
	if r.exact[repository] {
		return true
	}
	for _, prefix := range r.prefixes {
		if strings.HasPrefix(repository, prefix) {
			return true
		}
	}
	return false
}

// verifies reports whether a pod must prove its access to a repository's image. pulled is true if
// the agent pulled the image under any name, unless this name was preloaded.
func (r *rule) verifies(repository string, pulled bool) bool {
	switch r.policy {
	case NeverVerify:
		return false
	case NeverVerifyPreloadedImages:
		return pulled
	case NeverVerifyAllowlistedImages:
		return !r.listed(repository)
	default:
		return true
	}
}
