//! What was promised so far, and whether it was kept. No rule reads it.

use idem_core::claim::Claimed;

use super::cell::{Cell, CellState, RETENTION, Token, at, reply_token, token};
use super::model::{Listed, Policy, Role};
use super::rules::{Write, Written};

/// A broken promise, in words.
pub(super) type Kept = Result<(), &'static str>;

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Ghost {
    /// Who was told last that it holds which attempt of which life.
    holder: Option<Token>,
    /// The life that was completed last, and its reply.
    reply: Option<(u8, Token)>,
    /// Which lives acted, and when those lives began.
    acts: Vec<(u8, u8)>,
    /// The latest lease that a holder was told of, and its end.
    promised: Option<(Token, u8)>,
    /// The highest recovery point, and its life.
    point: (u8, u8),
}

/// The record before and after one request.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) before: Option<&'a Cell>,
    pub(super) after: Option<&'a Cell>,
    pub(super) now: u8,
}

impl Seen<'_> {
    /// What a request finds: an expired record counts as absent.
    fn found(&self) -> Option<&Cell> {
        self.before.filter(|cell| match cell.state {
            CellState::Done { expires, .. } => expires > self.now,
            CellState::Held { .. } => true,
        })
    }
}

impl Ghost {
    pub(super) fn claimed(
        &mut self,
        role: &Role,
        listed: Option<Listed>,
        claimed: &Claimed,
        seen: Seen<'_>,
    ) -> Kept {
        let Claimed::Acquired(acquired) = claimed else {
            require(seen.before == seen.after, "a loser changed the record")?;
            if let (Claimed::Completed(replay), Some(found)) = (claimed, seen.found()) {
                require(found.body == role.body, "another request got this reply")?;
                let replayed = (found.under.life, reply_token(&replay.reply));
                require(self.reply == Some(replayed), "a reply changed")?;
            }
            return Ok(());
        };
        let held = token(&acquired.fence);
        if let Some(holder) = self.holder {
            let same = (holder.life, holder.attempt) == (held.life, held.attempt);
            require(!same || holder == held, "two hold one attempt of one life")?;
        }
        self.holder = Some(held);
        require(!acquired.lease.is_zero(), "a lease was over when it was given")?;
        self.taken_over(role, listed, held, seen)?;
        let until = acquired.lease.as_secs();
        self.promised = Some((held, seen.now + u8::try_from(until).unwrap()));
        self.changed(seen)
    }

    fn taken_over(&self, role: &Role, listed: Option<Listed>, held: Token, seen: Seen<'_>) -> Kept {
        if let Some(listed) = listed {
            require(held.life == listed.life, "a reconciler got what it did not list")?;
        }
        let Some(found) = seen.found().filter(|found| found.under != held) else { return Ok(()) };
        if let Some((holder, until)) = self.promised {
            require(
                found.under != holder || until <= seen.now,
                "a lease was taken over before the end that its holder was told",
            )?;
        }
        if held.life != found.under.life {
            return require(found.point() == 0, "what began was replaced");
        }
        let held_back = role.policy == Policy::Never && found.point() > 0;
        require(!held_back, "what is held was run again")?;
        let reconciled = role.policy == Policy::Reconciles;
        require(!reconciled || found.point() > 0, "work that never began was started")
    }

    pub(super) fn wrote(
        &mut self,
        under: Token,
        write: Write,
        told: Written,
        seen: Seen<'_>,
    ) -> Kept {
        if seen.found().is_none_or(|found| found.under != under) {
            require(seen.before == seen.after, "a stale fence changed the record")?;
            let lost = told == Written::FenceLost || write == Write::Release;
            require(lost, "a stale fence was accepted")?;
        }
        if let (Write::Renew { .. } | Write::Point(_), Some(before), Some(after)) =
            (write, seen.before, seen.after)
        {
            self.prolonged(under, write, before, after)?;
        }
        if write == Write::Complete && told == Written::Ok {
            let own = seen.after.is_some_and(
                |after| matches!(after.state, CellState::Done { reply, .. } if reply == under),
            );
            require(own, "a completion was accepted and another reply stands")?;
        }
        self.changed(seen)
    }

    fn prolonged(&mut self, under: Token, write: Write, before: &Cell, after: &Cell) -> Kept {
        let (
            CellState::Held { until: old, given_up, .. },
            CellState::Held { until, given_up: gives_up, .. },
        ) = (before.state, after.state)
        else {
            return Ok(());
        };
        if given_up {
            require(until == old, "a lease that was given up came back")?;
        }
        if write == (Write::Renew { ticks: 0 }) && after.under == under {
            self.promised = None;
        } else if after.under == under && !gives_up {
            let promised = self.promised.filter(|(holder, _)| *holder == under);
            let longest = promised.map_or(until, |(_, end)| end.max(until));
            self.promised = Some((under, longest));
        }
        Ok(())
    }

    /// A promise of a lease ends with it.
    pub(super) fn tick(&mut self, now: u8) {
        self.promised = self.promised.filter(|(_, until)| *until > now);
    }

    pub(super) fn swept(&mut self, cell: &Cell, now: u8) -> Kept {
        let empty = cell.is_done() || cell.marks && cell.point() == 0;
        require(empty, "work in progress was swept")?;
        self.changed(Seen { before: Some(cell), after: None, now })
    }

    /// Whoever acts does so downstream under a key of this life, while that is remembered.
    pub(super) fn acted(&mut self, life: u8, created: u8, now: u8) -> Kept {
        require(now < created + RETENTION, "the downstream was called past its window")?;
        for (other, began) in &self.acts {
            require(
                *other == life || began.abs_diff(created) >= RETENTION,
                "the key was freed after something was done, and something else was done",
            )?;
        }
        if !self.acts.contains(&(life, created)) {
            self.acts.push((life, created));
            self.acts.sort_unstable();
        }
        Ok(())
    }

    fn changed(&mut self, seen: Seen<'_>) -> Kept {
        let Some(after) = seen.after else {
            let began = seen.before.is_some_and(|before| before.point() > 0);
            return require(!began, "what began was deleted");
        };
        let life = after.under.life;
        match after.state {
            CellState::Done { reply, completed, .. } => {
                require(at(completed) <= at(seen.now), "completed in the future")?;
                let first = self.reply.filter(|(of, _)| *of == life);
                self.reply = Some((life, reply));
                require(first.is_none_or(|(_, first)| first == reply), "a reply changed")
            }
            CellState::Held { point, .. } => {
                let back = self.point.0 == life && point < self.point.1;
                self.point = (life, point);
                require(!back, "a recovery point moved back")
            }
        }
    }
}

fn require(kept: bool, broken: &'static str) -> Kept {
    if kept { Ok(()) } else { Err(broken) }
}
