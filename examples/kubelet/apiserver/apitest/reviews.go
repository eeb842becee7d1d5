package apitest

import (
	"fmt"
	"net/http"

	authv1 "k8s.io/api/authentication/v1"
	authzv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// reviewers decide about authentication and authorization. Server.mu guards them.
type reviewers struct {
	token  func(authv1.TokenReviewSpec) authv1.TokenReviewStatus
	access func(authzv1.SubjectAccessReviewSpec) authzv1.SubjectAccessReviewStatus
}

// SetReviews sets the functions that decide TokenReviews and SubjectAccessReviews. They are called
// concurrently. Without them all tokens are invalid, and all access is denied.
func (s *Server) SetReviews(token func(authv1.TokenReviewSpec) authv1.TokenReviewStatus, access func(authzv1.SubjectAccessReviewSpec) authzv1.SubjectAccessReviewStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reviewers = reviewers{token, access}
}

func (s *Server) review(c Call, gvk schema.GroupVersionKind) (runtime.Object, error) {
	if c.Verb != "create" {
		return nil, apierrors.NewGenericServerResponse(http.StatusMethodNotAllowed, c.Verb, c.gvr.GroupResource(), "", "reviews are created only", 0, true)
	}
	decoded, err := s.wire.decode(c.Header.Get("Content-Type"), c.Body, gvk)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	ask := s.reviewers
	s.mu.Unlock()
	switch r := decoded.(type) {
	case *authv1.TokenReview:
		if r = r.DeepCopy(); ask.token != nil {
			r.Status = ask.token(r.Spec)
		}
		return r, nil
	case *authzv1.SubjectAccessReview:
		if r = r.DeepCopy(); ask.access != nil {
			r.Status = ask.access(r.Spec)
		}
		return r, nil
	}
	return nil, apierrors.NewBadRequest(fmt.Sprintf("the body is a %T", decoded))
}
