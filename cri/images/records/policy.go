package records

import (
	"errors"
	"fmt"
	"strings"

	"github.com/podwright/podwright/cri/images/imageref"
)

// Policy says for which images a pod must show that it may use them.
type Policy string

// The policies, as imagePullCredentialsVerificationPolicy names them.
const (
	// NeverVerify lets every pod use every image on the node.
	NeverVerify Policy = "NeverVerify"
	// NeverVerifyPreloadedImages lets every pod use what was there before
	// anybody pulled it. The default.
	NeverVerifyPreloadedImages Policy = "NeverVerifyPreloadedImages"
	// NeverVerifyAllowlistedImages lets every pod use the images of a list.
	NeverVerifyAllowlistedImages Policy = "NeverVerifyAllowlistedImages"
	// AlwaysVerify makes an exception for nothing.
	AlwaysVerify Policy = "AlwaysVerify"
)

// rule is a policy with its list.
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
		return rule{}, fmt.Errorf("records: Config.Policy %q is none of %s, %s, %s and %s", policy,
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

// CheckAllowlistEntry says what is wrong with an entry of Config.Allowlist, nil if
// nothing is.
func CheckAllowlistEntry(pattern string) error {
	r := rule{exact: map[string]bool{}}
	return r.allow(pattern)
}

// allow adds an entry of the list: a repository, or the beginning of some that
// ends with "/*".
func (r *rule) allow(pattern string) error {
	prefix, wild := strings.CutSuffix(pattern, "/*")
	if wild {
		// Only what could begin a name can be meant.
		if _, err := imageref.Parse(prefix + "/x"); err != nil || prefix == "" {
			return errors.New("what stands before /* is not the beginning of an image name")
		}
		r.prefixes = append(r.prefixes, prefix+"/")
		return nil
	}
	name, err := imageref.Parse(pattern)
	if err != nil {
		return err
	}
	if name.Tag != "" || name.Digest != "" {
		return errors.New("an entry has neither tag nor digest")
	}
	r.exact[name.Repository] = true
	return nil
}

// listed tells whether a repository is on the list.
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

// verifies tells whether a pod must show that it may use a repository's image.
// pulled says that the agent pulled it, under this name or another, and not only
// under others when it had this one before.
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
