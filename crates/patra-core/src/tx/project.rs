//! Projects.

/// Makes a project, unless there is one with this key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CreateProject {
    pub project_key: String,
    pub name: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProjectCreated {
    pub existed: bool,
}
