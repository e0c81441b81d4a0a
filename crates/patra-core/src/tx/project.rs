//! Projects.

/// Creates a project, unless one with this key exists.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CreateProject {
    pub project_key: String,
    pub name: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProjectCreated {
    pub existed: bool,
}
