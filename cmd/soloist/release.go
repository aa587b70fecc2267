package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/soloist-dev/soloist"
)

// releaseCommand takes a lease of a kind away from its holder. Its arguments are called args, as in "NAME"; find makes
// of them what is known of the lease beside its token.
func (a *app) releaseCommand(what, args string, find func(ctx context.Context, admin *soloist.Admin, args []string, token int64) (soloist.LeaseInfo, error)) *cobra.Command {
	var token int64
	reason := ""
	c := &cobra.Command{
		Use: "release " + args + " --token N --reason TEXT", Short: "Take " + what + " away from its holder",
		Long: `release takes ` + what + ` away from the holder that has it with the token that list showed. The holder notices that
only when it renews its lease, so another process may have it before the holder stops. The reason is kept; audit list shows it.`,
		Args: a.noChild(cobra.ExactArgs(len(strings.Fields(args)))),
		RunE: func(_ *cobra.Command, args []string) error {
			if token <= 0 {
				return usage("--token %d: give the token that list shows, which is > 0", token)
			}
			if err := needsReason(reason); err != nil {
				return err
			}
			return a.look(func(ctx context.Context, c *soloist.Client) error {
				admin := c.Admin()
				seen, err := find(ctx, admin, args, token)
				if err != nil {
					return err
				}
				seen.Token = token
				return admin.Release(ctx, seen, reason)
			})
		},
	}
	c.Flags().Int64Var(&token, "token", 0, "the token that it is held with, as list shows it (required)")
	c.Flags().StringVar(&reason, "reason", "", "why; audit list shows it (required)")
	_ = c.MarkFlagRequired("token")
	_ = c.MarkFlagRequired("reason")
	return c
}

// needsReason refuses a reason that says nothing.
func needsReason(reason string) error {
	if strings.TrimSpace(reason) == "" {
		return usage("--reason is empty: give a reason, which audit list shows")
	}
	return nil
}

// named finds leases of a kind that are known by one name.
func named(kind soloist.Kind) func(context.Context, *soloist.Admin, []string, int64) (soloist.LeaseInfo, error) {
	return func(_ context.Context, _ *soloist.Admin, args []string, _ int64) (soloist.LeaseInfo, error) {
		return soloist.LeaseInfo{Kind: kind, Name: args[0]}, nil
	}
}

func elementOf(_ context.Context, _ *soloist.Admin, args []string, _ int64) (soloist.LeaseInfo, error) {
	return soloist.LeaseInfo{Kind: soloist.KindElement, Job: args[0], Name: args[1]}, nil
}

// permitOf finds the permit of a semaphore that is held with a token.
func permitOf(ctx context.Context, admin *soloist.Admin, args []string, token int64) (soloist.LeaseInfo, error) {
	var found []soloist.LeaseInfo
	var others []string
	for s, err := range admin.Semaphores(ctx) {
		if err != nil {
			return soloist.LeaseInfo{}, err
		}
		if s.Name != args[0] {
			continue
		}
		for _, p := range s.Permits {
			if p.Token == token {
				found = append(found, p)
			} else if p.Holder != "" {
				others = append(others, fmt.Sprintf("%s with token %d", p.Replica(), p.Token))
			}
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return soloist.LeaseInfo{}, fmt.Errorf("%d permits of %q are held with token %d: stop the holder of the one that is meant", len(found), args[0], token)
	case len(others) > 0:
		return soloist.LeaseInfo{}, fmt.Errorf("semaphore %q: %w; its permits are held by %s", args[0], soloist.ErrNotHeld, strings.Join(others, ", "))
	}
	return soloist.LeaseInfo{}, fmt.Errorf("semaphore %q: %w; none of its permits is held", args[0], soloist.ErrNotHeld)
}

// auditCommand shows what people have changed.
func (a *app) auditCommand() *cobra.Command {
	c := &cobra.Command{Use: "audit", Short: "See who has changed what, and why", GroupID: "see", Args: a.noChild(cobra.NoArgs), RunE: needsSubcommand}
	show := &cobra.Command{
		Use: "list", Short: "List the last 100 releases by force, pauses, triggers and the like, the newest last", Args: a.noChild(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if err := a.checkOutput(); err != nil {
				return err
			}
			return a.look(func(ctx context.Context, c *soloist.Client) error {
				same := func(action soloist.Action) soloist.Action { return action }
				return list(a, "AT|BY|ACTION|KIND|NAME|TOKEN|HOLDER|REASON", c.Admin().Actions(ctx), same, func(action soloist.Action) []string {
					name, token := cmp.Or(action.Name, "(all)"), ""
					if action.Job != "" {
						name = action.Job + " " + name
					}
					if action.Token > 0 {
						token = fmt.Sprint(action.Token)
					}
					return []string{instant(action.At), action.By, action.Verb, string(action.Kind), name, token, action.Holder, action.Reason}
				})
			})
		},
	}
	a.outputFlag(show)
	c.AddCommand(show)
	return c
}
